"""`nearest_rank`: a percentile that is one of the values. Plain Python, without numpy."""

import math
from collections.abc import Sequence as Seq


def nearest_rank(values: Seq[float], percent: float) -> float:
    """Return the smallest value such that `percent` % of the values do not exceed this value."""
    ordered = sorted(values)
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[max(rank, 1) - 1]
