"""Whoever is held simply stays where it is."""

HINT = "The dashboard shows why each request waits. Who tells it, if you do not?"
CHANGES = {
    "            if hold := self._hold(sequence, plan, budget, now):\n                self._defer(sequence, *hold)\n": "            if self._hold(sequence, plan, budget, now):\n",
}
