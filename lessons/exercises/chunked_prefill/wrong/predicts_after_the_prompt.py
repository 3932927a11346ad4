"""A sequence predicts as soon as its prompt is computed."""

HINT = "After a preemption the prompt is computed again, and the tokens generated before come after it. Which is the last known token?"
CHANGES = {
    "predicts = end == sequence.num_tokens": "predicts = end >= sequence.num_prompt_tokens",
}
