"""A tile that is not full is skipped."""

from minivllm.kernels.attention import decode_naive as engine

HINT = "The last tokens are the newest ones. With masks, a tile can be partly real."

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    whole = seq_lens.clone()
    seq_lens -= seq_lens % engine.TILE
    out = _right(query, key_cache, value_cache, block_tables, seq_lens, scale, out)
    seq_lens.copy_(whole)
    return out
