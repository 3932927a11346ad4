"""Simulates a load that this machine could not serve, with the real scheduler and KV cache."""
