"""How long a test waits for what must happen. One number for all: only a hang ever reaches it, and
a busy laptop must not.

A test that says that something is *not* waited for makes the other way last `FOREVER`, and then
waits `SOON` at most: which of the two it was is a fact, however slow the machine.
"""

SOON = 200.0
"""Seconds. `timeout` of pytest, in pyproject.toml, is several times as long."""
FOREVER = 3600.0
"""Seconds. Nobody waits so long."""
