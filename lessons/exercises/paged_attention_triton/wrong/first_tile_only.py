"""A context has one tile."""

from minivllm.kernels.attention import decode_naive as engine

HINT = "Positions from 16 on are never read. Where does the loop end?"

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    whole = seq_lens.clone()
    seq_lens.clamp_(max=engine.TILE)
    out = _right(query, key_cache, value_cache, block_tables, seq_lens, scale, out)
    seq_lens.copy_(whole)
    return out
