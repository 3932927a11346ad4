"""A context has one tile."""

HINT = "Positions 16 and on are never seen. Where does the loop end?"
CHANGES = {
    "range(0, seq_len, TILE)": "range(0, tl.minimum(seq_len, TILE), TILE)",
}
