"""Scores are multiplied with scale."""

from minivllm.kernels.attention import decode_naive as engine

HINT = "softmax_update uses 2 to the power of the score. What makes exp(x) of exp2?"

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    return _right(query, key_cache, value_cache, block_tables, seq_lens, scale / engine.LOG2_E, out)
