"""A tile that is not full is not attended to."""

HINT = "The last tokens are the newest ones. Masks are there to let a tile be partly real."
CHANGES = {
    "range(0, seq_len, TILE)": "range(0, (seq_len // TILE) * TILE, TILE)",
}
