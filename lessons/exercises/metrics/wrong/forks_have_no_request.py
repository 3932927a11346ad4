"""A request has one sequence, the one that it arrives with."""

from collections.abc import Iterable

from minivllm.lessons.sketches import latencies as right

HINT = "Which event gives the second sample its name, and which field leads to its request?"

_right = right.read_times


def read_times(lines: Iterable[str]) -> dict[str, right.RequestTimes]:
    return {
        name: one._replace(token_times=dict([next(iter(one.token_times.items()))]))
        for name, one in _right(lines).items()
    }
