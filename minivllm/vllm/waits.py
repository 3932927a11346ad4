"""Why the first waiting requests were not admitted: inferred, because vLLM's loop does not say it.

The reasons are in the order of vLLM's loop over waiting requests.
"""

from collections.abc import Iterator
from typing import Any


def waiting_of(scheduler: Any) -> list[Any]:
    """The waiting requests, next first."""
    return [*scheduler.kv_holding_waiting, *scheduler.waiting]


def first_waits(
    scheduler: Any, left: int, shortage: tuple | None, has_preempted: bool, throttled: bool
) -> Iterator[tuple[str, str, int, int]]:
    """Fields of `request.deferred` for requests that are passed over, and the first that is not.

    left:     how much of the token budget the plan has left
    shortage: the last failed allocation: request, blocks needed, blocks free
    """
    for request in waiting_of(scheduler):
        who, *blocks = shortage or (None, 0, 0)
        num_free_slots = scheduler.max_num_active_reqs - len(scheduler.running)
        is_chunked = scheduler.scheduler_config.enable_chunked_prefill
        is_stale = request.num_stale_output_tokens and not request.drop_stale_output
        reasons = (
            (has_preempted, "preempted_this_step", *blocks),
            (is_stale, "stale_output", 0, 0),
            (scheduler.pause_state.name != "UNPAUSED", "paused", 0, 0),
            (left <= 0, "token_budget", request.num_tokens, 0),
            (num_free_slots <= 0, "max_num_seqs", 1, 0),
            (who is request, "no_blocks", *blocks),
            (scheduler.lora_config and request.lora_request, "lora", 0, 0),
            (throttled, "throttled", 0, 0),
            (scheduler.num_spec_tokens or not is_chunked, "token_budget", request.num_tokens, left),
            (True, "other", 0, 0),
        )
        _, *why = next(reason for reason in reasons if reason[0])
        if request.status.name != "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR":  # said at its arrival
            yield request.request_id, *why
            if why[0] != "stale_output":
                return
