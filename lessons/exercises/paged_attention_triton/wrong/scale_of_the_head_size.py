"""The scale is one over the square root of the head size."""

from minivllm.kernels.attention import decode_naive as engine

HINT = "A model may use another scale. That is why it is an argument."

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    return _right(
        query, key_cache, value_cache, block_tables, seq_lens, query.shape[2] ** -0.5, out
    )
