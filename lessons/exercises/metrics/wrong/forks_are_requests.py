"""A forked sequence is a request of its own, which arrives when it is forked."""

import json
from collections.abc import Iterable

from minivllm.lessons.sketches import latencies as right

HINT = "How many users are there if one user asks for three samples? When did that user ask?"


def read_times(lines: Iterable[str]) -> dict[str, right.RequestTimes]:
    requests: dict[str, right.RequestTimes] = {}
    request_of: dict[str, str] = {}
    for line in lines:
        event = json.loads(line)
        if event["ev"] in ("request.arrived", "request.forked"):
            name = event.get("request_id", event["seq_id"])
            request_of[event["seq_id"]] = name
            requests[name] = right.RequestTimes(event["t"], {event["seq_id"]: []})
        elif event["ev"] == "token.sampled":
            request = requests[request_of[event["seq_id"]]]
            request.token_times[event["seq_id"]].append(event["t"])
    return requests
