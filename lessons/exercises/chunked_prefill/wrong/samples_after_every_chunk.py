"""Whatever goes through the model predicts a token."""

HINT = "After half of the prompt the model says what would follow that half. Is that the answer's first token?"
CHANGES = {
    "predicts = end == sequence.num_tokens": "predicts = True",
}
