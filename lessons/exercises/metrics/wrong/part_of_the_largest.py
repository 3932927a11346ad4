"""p99 is 99 percent of the largest value."""

from collections.abc import Sequence as Seq

HINT = "A percentile is one of the values. How many values are at or below yours?"


def percentile(values: Seq[float], percent: int) -> float | None:
    return max(values) * percent / 100 if values else None
