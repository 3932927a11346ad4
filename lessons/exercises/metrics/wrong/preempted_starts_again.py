"""A preempted sequence starts again, so the tokens before do not count."""

import json
from collections.abc import Iterable

from minivllm.lessons.sketches import latencies as right

HINT = "Preemption takes blocks away, not tokens. Has the user seen the tokens before it?"

_right = right.read_times


def read_times(lines: Iterable[str]) -> dict[str, right.RequestTimes]:
    lines = list(lines)
    kept: list[str] = []
    for line in lines:
        event = json.loads(line)
        if event["ev"] == "request.preempted":
            gone = event["seq_id"]
            kept = [
                one
                for one in kept
                if (json.loads(one)["ev"], json.loads(one)["seq_id"]) != ("token.sampled", gone)
            ]
        elif event["ev"] in ("request.arrived", "request.forked", "token.sampled"):
            kept.append(line)
    return _right(kept)
