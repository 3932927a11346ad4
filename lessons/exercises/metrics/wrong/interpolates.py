"""A percentile lies between two values, in proportion."""

from collections.abc import Sequence as Seq

HINT = "That is numpy's default. Here the result is a gap that a user has really had."


def percentile(values: Seq[float], percent: int) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
