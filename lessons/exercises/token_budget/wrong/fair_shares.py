"""The budget is divided evenly among those who run."""

HINT = "Ada lacks one token, and your share for her is five. Who could have used the other four?"
CHANGES = {
    "        running, scheduled = self.running, plan.scheduled\n": "        running, scheduled = self.running, plan.scheduled\n        share = max(1, budget // max(1, len(running)))\n",
    "min(sequence.num_tokens - start, budget)": "min(sequence.num_tokens - start, share, budget)",
}
