"""Scores are multiplied by scale only."""

from minivllm.kernels.attention import decode_naive as engine

HINT = "softmax_update computes 2 to the power of the score. Which factor turns exp2 into exp?"

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    return _right(query, key_cache, value_cache, block_tables, seq_lens, scale / engine.LOG2_E, out)
