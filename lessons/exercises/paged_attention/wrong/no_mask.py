"""Zeroed keys have no weight, so the mask is not needed."""

HINT = "A score of 0 is a score like any other: exp(0) is 1. Which operand takes a key out of the softmax?"
CHANGES = {
    "self._scale, mask=bucket.mask)": "self._scale)",
}
