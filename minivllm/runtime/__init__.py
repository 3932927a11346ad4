"""Everything that computes: models, KV cache tensors, attention, sampling, and the files that they
come from.
"""
