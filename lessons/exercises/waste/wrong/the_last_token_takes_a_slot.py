"""A sequence will hold prompt and max_tokens."""

HINT = "The last token is sampled, and then the sequence ends. Does anybody compute its key and value?"
CHANGES = {
    "num_final = min(num_tokens, header.max_model_len) - 1": "num_final = min(num_tokens, header.max_model_len)",
}
