"""How long tests wait. Only a hang reaches `SOON`; a busy laptop does not.

To show that something is *not* waited for, a test makes that last `FOREVER` and waits `SOON`.
"""

import os

SOON = float(os.environ.get("MINIVLLM_SOON", "200"))
"""Seconds. pytest's `timeout` in pyproject.toml is several times as long. `make mutants`, where
many tests hang, sets less.
"""
FOREVER = 3600.0  # Seconds, longer than any test.
