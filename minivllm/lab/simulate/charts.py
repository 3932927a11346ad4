"""Small pictures in the terminal: a distribution and a course of time, in eighths of a character.

They know numbers in order and nothing of simulations. The easy thing to get wrong is the axis:
waits span a thousandfold from the median to the tail, so that a linear axis would show one wall and
a long nothing. The distribution's is logarithmic.
"""

import numpy as np

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def columns(heights: np.ndarray, rows: int) -> list[str]:
    """Bars of `heights` from 0 to 1, as `rows` lines from top to bottom. What is over 0 is seen."""
    eighths = np.ceil(np.clip(heights, 0, 1) * rows * 8).astype(int)
    return [
        "".join(_EIGHTHS[min(max(one - 8 * row, 0), 8)] for one in eighths)
        for row in reversed(range(rows))
    ]


def distribution(values: np.ndarray, width: int, rows: int) -> list[str]:
    """Which share of `values` (over 0) is at most so large, over a logarithmic axis; the last line
    names its ends.
    """
    ordered = np.sort(np.maximum(values, 1e-9))
    axis = np.geomspace(ordered[0], max(ordered[-1], ordered[0] * 1.001), width)
    shares = np.searchsorted(ordered, axis * (1 + 1e-12), side="right") / len(ordered)
    left, right = f"{ordered[0]:.3g} s", f"{ordered[-1]:.3g} s"
    return [*columns(shares, rows), left + right.rjust(width - len(left))]


def over_time(
    began: np.ndarray, seconds: np.ndarray, values: np.ndarray, end: float, width: int
) -> np.ndarray:
    """The mean of a step function in `width` equal stretches from 0 to `end`; where no step ran it
    is 0.

    `values[i]` holds from `began[i]` on, for `seconds[i]`.
    """
    edges = np.linspace(0.0, end, width + 1)
    # The integral up to a moment: all steps that have ended, and its part of the one that is under
    # way.
    area = np.concatenate([[0.0], np.cumsum(values * seconds)])
    index = np.searchsorted(began, edges, side="right") - 1
    inside = np.maximum(index, 0)
    part = np.clip(edges - began[inside], 0, seconds[inside]) * values[inside]
    integral = np.where(index < 0, 0.0, area[inside] + part)
    return np.diff(integral) / (end / width)
