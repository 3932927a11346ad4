"""The rank is rounded down."""

from collections.abc import Sequence as Seq

HINT = "Of five values, 80 percent are four. For p81, are four values enough?"


def percentile(values: Seq[float], percent: int) -> float | None:
    return sorted(values)[max(percent * len(values) // 100, 1) - 1] if values else None
