"""`run_of_arrivals`: a reader's own arrivals, as a run that the playground can play.

The format is that of `minivllm simulate --arrival FILE`. There are no texts: every token of a
request is a dot, and requests of one prefix group begin with the same tokens.
"""

from pathlib import Path

from msgspec import structs

from minivllm.errors import SimulationError
from minivllm.lab.race.recorded_run import RecordedRequest, RecordedRun
from minivllm.lab.simulate.arrival import Arrival
from minivllm.lab.simulate.arrival_file import read_arrivals

MOST_REQUESTS = 200
MOST_TOKENS = 50_000
"""A browser runs a few thousand steps in the time that a reader waits."""
DOT = "·"
SHARED_IDS = 1_000
"""The first token id of prefix groups; smaller ids are the requests' own."""


def run_of_arrivals(path: Path, base: RecordedRun) -> RecordedRun:
    """Read the arrivals of a file. `base` gives the model, the options and the step times.

    Raises `SimulationError` if the file cannot be parsed or asks for too much.
    """
    arrivals = read_arrivals(path)
    total = sum(one.prompt_tokens + one.output_tokens for one in arrivals)
    if len(arrivals) > MOST_REQUESTS or total > MOST_TOKENS:
        raise SimulationError(
            f"These are {len(arrivals)} requests with {total} tokens, but the playground serves at"
            f" most {MOST_REQUESTS} with {MOST_TOKENS}: use `minivllm simulate` for more."
        )
    requests = [_request(number, one) for number, one in enumerate(arrivals)]
    longest = max(one.prompt_tokens + one.output_tokens for one in arrivals)
    header = structs.replace(base.header, max_model_len=max(longest, base.header.max_model_len))
    ids = {token_id for one in requests for token_id in (*one.prompt_token_ids, *one.outputs[0])}
    return RecordedRun(header, requests, dict.fromkeys(ids, DOT), base.step_times, [])


def _request(number: int, one: Arrival) -> RecordedRequest:
    own = number + 1
    num_shared = 0 if one.prefix_group is None else one.prefix_tokens
    shared = [SHARED_IDS + (one.prefix_group or 0)] * num_shared
    prompt = shared + [own] * (one.prompt_tokens - num_shared)
    return RecordedRequest(
        f"r{number}", prompt, None, [[own] * one.output_tokens], one.at, one.priority
    )
