"""The output is the weighted mean of the keys."""

from minivllm.kernels.attention import decode_naive as engine

HINT = "Keys decide where to look. The values that the output needs are in the other cache."

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    return _right(query, key_cache, key_cache, block_tables, seq_lens, scale, out)
