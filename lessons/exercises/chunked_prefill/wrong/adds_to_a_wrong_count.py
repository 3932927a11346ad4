"""A chunk's tokens are counted one step later, when its result is there."""

HINT = "The next step is planned before that. Where would it begin? Count when the plan is final."
CHANGES = {
    "        sequence.num_computed_tokens = end\n": "        sequence.num_computed_tokens = item.start\n",
}
