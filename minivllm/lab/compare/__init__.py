"""Runs one trace through two configurations of the engine with equal memory, and compares them."""
