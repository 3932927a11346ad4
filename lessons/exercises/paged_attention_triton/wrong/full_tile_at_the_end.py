"""A last tile that is full is not part of the context."""

from minivllm.kernels.attention import decode_naive as engine

HINT = "With 32 tokens, the last tile is positions 16 to 31. Where does range(0, 32, 16) end?"

_right = engine.decode_naive


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    whole = seq_lens.clone()
    seq_lens -= engine.TILE * ((seq_lens % engine.TILE == 0) & (seq_lens > engine.TILE))
    out = _right(query, key_cache, value_cache, block_tables, seq_lens, scale, out)
    seq_lens.copy_(whole)
    return out
