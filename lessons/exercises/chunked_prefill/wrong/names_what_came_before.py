"""Only what was computed before this step may be named."""

HINT = "In each layer all keys and values of a step are written before any are read. May the next in this step's plan share these blocks?"
CHANGES = {
    "cache_full_blocks(sequence, end)": "cache_full_blocks(sequence, item.start)",
}
