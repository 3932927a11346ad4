"""The value of rank 4 is at index 4."""

from collections.abc import Sequence as Seq

HINT = "Of five values, p80 is the fourth. At which index of the list is the fourth value?"


def percentile(values: Seq[float], percent: int) -> float | None:
    rank = -(-percent * len(values) // 100)
    return sorted(values)[min(rank, len(values) - 1)] if values else None
