"""acc can always be divided by running_sum."""

import torch

from minivllm.kernels.attention import decode_naive as engine

HINT = "A padded row has no tile, so its sum is 0. What is 0 / 0?"

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    out = _right(query, key_cache, value_cache, block_tables, seq_lens, scale, out)
    out[seq_lens == 0] = torch.nan
    return out
