"""Blocks get their names when the prompt is complete."""

HINT = "A second prompt with the same beginning comes in after the first chunk. What could it share already?"
CHANGES = {
    "cache_full_blocks(sequence, end)": "cache_full_blocks(sequence, end if end == sequence.num_tokens else 0)",
}
