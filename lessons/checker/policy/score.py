"""What users notice of a policy, as five figures and one score.

The score is the geometric mean of five ratios to `fcfs` on the same traffic, each above 1 where the
policy is better. So a policy may pay with one figure for another, but twice as good in one and half
as good in another is no gain.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import geometric_mean, mean
from typing import NamedTuple

from minivllm.lessons.checker.policy.play import Served
from minivllm.text import plural


class PolicyFigures(NamedTuple):
    """The first four are in seconds, and smaller is better."""

    chat_median: float
    chat_worst: float
    any_worst: float
    pause: float
    tokens_per_second: float


MEANINGS = (
    ("chats p50", "half of the people who chat read their first word within this time"),
    ("chats p99", "and all but the unluckiest within this one"),
    ("all p99", "with the documents: what those who can wait have to pay"),
    ("pause p90", "the longest gap within an answer: preempted answers stop for a while"),
    ("tokens/s", "the work that the engine gets done; recomputed tokens do not count"),
)
"""Title and meaning of each figure that counts."""


def figures_of(served: Sequence[Served]) -> PolicyFigures:
    """served: the requests in order of arrival, each with at least one token"""
    chats = [one for one in served if one.priority == 0]
    first_words = [one.time_to_first_token for one in chats]
    pauses = [max(b - a for a, b in pairwise(one.times)) for one in chats if len(one.times) > 1]
    seconds = max(one.times[-1] for one in served) - served[0].arrived
    return PolicyFigures(
        _percentile(first_words, 50),
        _percentile(first_words, 99),
        _percentile([one.time_to_first_token for one in served], 99),
        _percentile(pauses, 90),
        sum(len(one.times) for one in served) / seconds,
    )


def _percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[max(math.ceil(percent * len(values) / 100) - 1, 0)]


def ratios(figures: PolicyFigures, fcfs: PolicyFigures) -> list[float]:
    """How many times better than `fcfs` each figure is."""
    *times, tokens = (ours / theirs for ours, theirs in zip(figures, fcfs, strict=True))
    return [*(1 / one for one in times), tokens]


def score_of(traces: Sequence[PolicyFigures], fcfs: Sequence[PolicyFigures]) -> float:
    """The geometric mean over the figures of all traces; `fcfs` itself has 1.0."""
    return geometric_mean(one for pair in zip(traces, fcfs, strict=True) for one in ratios(*pair))


def table(policies: dict[str, Sequence[PolicyFigures]]) -> Iterator[str]:
    """A row for each policy, with the mean of its traces; `fcfs` must be one of them."""
    yield f"{'':<10}{''.join(f'{title:>11}' for title, _ in MEANINGS)}  score"
    for name, traces in policies.items():
        *seconds, tokens = map(mean, zip(*traces, strict=True))
        row = "".join(f"{one:>9.2f} s" for one in seconds)
        yield f"{name:<10}{row}{tokens:>11.1f}  {score_of(traces, policies['fcfs']):>5.2f}"


def weakest(traces: Sequence[PolicyFigures], fcfs: Sequence[PolicyFigures]) -> str:
    """One sentence about the figure that costs the most."""
    pairs = zip(traces, fcfs, strict=True)
    means = map(geometric_mean, zip(*(ratios(*pair) for pair in pairs), strict=True))
    least, (title, meaning) = min(zip(means, MEANINGS, strict=True))
    over = f"over {plural(len(traces), 'trace')} it is {least:.2f} times as good as with fcfs"
    return f"The weakest figure is {title} ({meaning}): {over}."
