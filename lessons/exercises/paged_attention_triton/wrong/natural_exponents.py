"""Scores are multiplied with scale."""

HINT = "softmax_update uses 2 to the power of the score. What makes exp(x) of exp2?"
CHANGES = {
    "        scale * LOG2_E,": "        scale,",
}
