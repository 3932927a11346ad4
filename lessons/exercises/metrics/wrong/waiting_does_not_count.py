"""The time to first token begins when the request gets a batch slot."""

import json
from collections.abc import Iterable

from minivllm.lessons.sketches import latencies as right

HINT = "The user pressed Enter when the request arrived. Does the user know about the queue?"

_right = right.read_times


def read_times(lines: Iterable[str]) -> dict[str, right.RequestTimes]:
    lines = list(lines)
    requests = _right(lines)
    for line in lines:
        event = json.loads(line)
        if event["ev"] == "request.admitted":
            name = event["seq_id"].rpartition(".")[0]
            requests[name] = requests[name]._replace(arrived=event["t"])
    return requests
