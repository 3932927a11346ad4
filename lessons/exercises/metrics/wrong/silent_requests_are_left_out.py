"""A request is there when it has a token."""

from collections.abc import Iterable

from minivllm.lessons.sketches import latencies as right

HINT = "A server that answers nobody must not look empty. Whom does your result leave out?"

_right = right.read_times


def read_times(lines: Iterable[str]) -> dict[str, right.RequestTimes]:
    return {name: one for name, one in _right(lines).items() if any(one.token_times.values())}
