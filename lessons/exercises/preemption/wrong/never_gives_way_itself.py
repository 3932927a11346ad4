"""Whoever needs the block is the one that goes on, so the victim is one of the others."""

HINT = "The policy says that the newest goes. If that is the one in need, it waits, or it would live at the cost of those before it."
CHANGES = {
    "            victim = self.waiting.choose_victim(self.running)\n            plan.withdraw": "            others = [one for one in self.running if one is not sequence]\n            victim = self.waiting.choose_victim(others or self.running)\n            plan.withdraw",
}
