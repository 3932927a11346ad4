"""Why the first waiting requests were not admitted: inferred, because vLLM's loop does not say it.

The tests have the order of vLLM's loop over waiting requests.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any


def waiting_of(scheduler: Any) -> Iterator[Any]:
    """The waiting requests, next first."""
    return chain(scheduler.kv_holding_waiting, scheduler.waiting)


def first_waits(
    scheduler: Any, left: int, shortage: tuple | None, has_preempted: bool, throttled: bool
) -> Iterator[tuple[str, str, int, int]]:
    """Fields of `request.deferred` for requests that are passed over, and the first that is not.

    left:     how much of the token budget the plan has left
    shortage: the last failed allocation: request, blocks needed, blocks free
    """
    for request in waiting_of(scheduler):
        if request.status.name == "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR":
            continue  # said at its arrival
        if has_preempted:
            why = "preempted_this_step", *(shortage or (request, 0, 0))[1:]
        elif request.num_stale_output_tokens and not request.drop_stale_output:
            yield request.request_id, "stale_output", 0, 0
            continue
        elif scheduler.pause_state.name != "UNPAUSED":
            why = "paused", 0, 0
        elif left <= 0:
            why = "token_budget", request.num_tokens, 0
        elif len(scheduler.running) >= scheduler.max_num_active_reqs:
            why = "max_num_seqs", 1, 0
        elif shortage and shortage[0] is request:
            why = "no_blocks", *shortage[1:]
        elif scheduler.lora_config and request.lora_request:
            why = "lora", 0, 0
        elif throttled:
            why = "throttled", 0, 0
        elif not scheduler.scheduler_config.enable_chunked_prefill or scheduler.num_spec_tokens:
            why = "token_budget", request.num_tokens, left
        else:
            why = "other", 0, 0
        yield request.request_id, *why
        return
