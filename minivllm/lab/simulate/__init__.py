"""Runs the real scheduler and KV cache under a load that no machine here could serve.

Only the model's time is simulated.
"""
