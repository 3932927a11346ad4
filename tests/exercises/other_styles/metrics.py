"""All events first, then one pass for each kind; percentiles by counting."""

from minivllm.lessons.sketches.latencies import RequestTimes


def read_times(lines):
    import json

    requests, owner = {}, {}
    for event in map(json.loads, lines):
        kind, name = event["ev"], event.get("seq_id")
        if kind == "request.arrived":
            owner[name] = requests[event["request_id"]] = RequestTimes(event["t"], {name: []})
        elif kind == "request.forked":
            owner[name] = owner[event["parent"]]
            owner[name].token_times[name] = []
        elif kind == "token.sampled":
            owner[name].token_times[name].append(event["t"])
    return requests


def time_to_first_token(request):
    everything = []
    for times in request.token_times.values():
        everything = sorted([*everything, *times])
    if not everything:
        return None
    return everything[0] - request.arrived


def inter_token_latencies(request):
    gaps = []
    for times in request.token_times.values():
        for index in range(1, len(times)):
            gaps.append(times[index] - times[index - 1])
    return gaps


def percentile(values, percent):
    for value in sorted(values):
        if sum(other <= value for other in values) * 100 >= percent * len(values):
            return value
    return None


def throughput(requests):
    count, last = 0, float("-inf")
    for request in requests:
        for times in request.token_times.values():
            count += len(times)
            last = max([last, *times])
    if count == 0:
        return 0.0
    return count / (last - sorted(request.arrived for request in requests)[0])
