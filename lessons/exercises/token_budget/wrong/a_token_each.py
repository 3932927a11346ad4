"""A running sequence writes its answer, so it lacks one token."""

HINT = "A long prompt runs, too, after its first chunk. How many tokens does it lack, and how many has the step left?"
CHANGES = {
    "min(sequence.num_tokens - start, budget)": "min(sequence.num_tokens - start, 1)",
}
