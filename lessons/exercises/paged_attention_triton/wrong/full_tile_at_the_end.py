"""A context whose last tile is full has ended before it."""

HINT = "With 32 tokens positions 16 to 31 are the last tile. Where does range(0, 32, 16) end?"
CHANGES = {
    "range(0, seq_len, TILE)": "range(0, tl.maximum((seq_len - 1) // TILE * TILE + (seq_len % TILE), tl.minimum(seq_len, TILE)), TILE)",
}
