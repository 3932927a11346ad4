"""The values are sorted already."""

from collections.abc import Sequence as Seq

HINT = "Gaps come in the order of time. Is the 99th of a hundred gaps one of the longest?"


def percentile(values: Seq[float], percent: int) -> float | None:
    return values[-(-percent * len(values) // 100) - 1] if values else None
