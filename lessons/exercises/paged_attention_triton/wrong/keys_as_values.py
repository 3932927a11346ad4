"""The weighted mean is that of the keys."""

from minivllm.kernels.attention import decode_naive as engine

HINT = "Keys say where to look. What is found there lies in the other cache."

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    return _right(query, key_cache, key_cache, block_tables, seq_lens, scale, out)
