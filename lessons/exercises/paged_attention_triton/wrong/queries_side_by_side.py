"""A row of queries is num_heads * head_size numbers long."""

from minivllm.kernels.attention import decode_naive as engine

HINT = (
    "In the engine, one product computes the queries, keys and values of a token, side by side."
    " What says where the next row of queries begins?"
)

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    _, num_heads, head_size = query.shape
    side_by_side = query.as_strided(query.shape, (num_heads * head_size, head_size, 1))
    return _right(side_by_side, key_cache, value_cache, block_tables, seq_lens, scale, out)
