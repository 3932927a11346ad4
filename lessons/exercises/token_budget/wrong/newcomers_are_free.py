"""What running sequences left is there for each newcomer."""

HINT = "Two prompts came in, and each got all that was left. How many tokens has this step now?"
CHANGES = {
    "        while self.waiting:\n": "        left = budget\n        while self.waiting:\n",
    "            budget -= item.num_tokens\n        # END SOLUTION\n        return budget\n": "            left -= item.num_tokens\n        # END SOLUTION\n        return left\n",
}
