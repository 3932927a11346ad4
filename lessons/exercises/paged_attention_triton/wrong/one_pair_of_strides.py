"""The output lies as the query does."""

import torch

from minivllm.kernels.attention import decode_naive as engine

HINT = (
    "`out` may be given, and then it lies as whoever made it wanted. It has strides of its own,"
    " after those of the query."
)

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    out = torch.empty_like(query) if out is None else out
    as_query = out.as_strided(query.shape, query.stride())
    _right(query, key_cache, value_cache, block_tables, seq_lens, scale, as_query)
    return out
