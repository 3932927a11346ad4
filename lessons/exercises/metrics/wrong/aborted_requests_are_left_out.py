"""A request whose user left is no request."""

import json
from collections.abc import Iterable

from minivllm.lessons.sketches import latencies as right

HINT = "The aborted request was served for a while. Who paid for its tokens?"

_right = right.read_times


def read_times(lines: Iterable[str]) -> dict[str, right.RequestTimes]:
    lines = list(lines)
    requests = _right(lines)
    for line in lines:
        event = json.loads(line)
        if event["ev"] == "request.aborted":
            requests.pop(event["seq_id"].rpartition(".")[0], None)
    return requests
