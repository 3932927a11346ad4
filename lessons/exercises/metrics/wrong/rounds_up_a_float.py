"""A rank is percent / 100 times the number of values, rounded up."""

import math
from collections.abc import Sequence as Seq

HINT = "Print 28 / 100 * 25. It should be 7: how do you round up a quotient of whole numbers?"


def percentile(values: Seq[float], percent: int) -> float | None:
    rank = math.ceil(percent / 100 * len(values))
    return sorted(values)[rank - 1] if values else None
