"""What was given out in this step is used up, also if its owner was preempted."""

HINT = "A victim has left the plan. Its tokens will not go through the model: to whom do they belong now?"
CHANGES = {
    "                budget = plan.budget - sum(item.num_tokens for item in scheduled)\n": "",
}
