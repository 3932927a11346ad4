"""Everything that computes: models, KV cache, attention, sampling, and reading model files."""
