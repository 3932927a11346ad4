"""Each sequence gets what it lacks; the budget limits one sequence, not the step."""

HINT = "Add up what you gave out in one step. Is it more than max_num_batched_tokens?"
CHANGES = {
    "while index < len(running) and budget > 0:": "while index < len(running):",
    "min(sequence.num_tokens - start, budget)": "min(sequence.num_tokens - start, plan.budget)",
}
