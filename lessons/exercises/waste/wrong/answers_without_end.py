"""max_tokens says how long the answer may become."""

HINT = "No sequence gets longer than max_model_len, whatever its max_tokens says."
CHANGES = {
    "num_final = min(num_tokens, header.max_model_len) - 1": "num_final = num_tokens - 1",
}
