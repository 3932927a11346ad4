"""A prompt comes in when the step has tokens left for all of it."""

HINT = "A prompt of 9,000 tokens, a budget of 8,000: in which step does it come in? Some of it can go through the model now."
CHANGES = {
    '        if budget == 0:\n            return Hold("token_budget", sequence.num_tokens, 0)': '        if budget < sequence.num_tokens:\n            return Hold("token_budget", sequence.num_tokens, budget)',
}
