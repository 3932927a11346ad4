"""Only what the sequence has computed itself is in use."""

HINT = "The prefix cache gave it eight tokens and it has computed three of its own. Do the eight take no slots?"
CHANGES = {
    "num_held = max(sequence.num_computed_tokens, sequence.num_cached_tokens)": "num_held = sequence.num_computed_tokens",
}
