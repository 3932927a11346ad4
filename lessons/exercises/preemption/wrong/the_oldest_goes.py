"""Whoever has run longest gives way to the others."""

HINT = "The oldest has the most to compute again and is nearest to its end. Whom does the policy choose?"
CHANGES = {
    "            victim = self.waiting.choose_victim(self.running)\n            plan.withdraw": "            victim = self.running[0]\n            plan.withdraw",
}
