"""Check whether a token ends its sequence: end-of-sequence, stop token ids, length.

`min_tokens` holds back end-of-sequence and stop tokens, but not the length limits, so every
sequence ends. Stop *strings* are found in the text, by `minivllm.engine.stop_strings`.

Source: vLLM `vllm/v1/core/sched/utils.py` (`check_stop`).
"""

from typing import NamedTuple

from minivllm.core.request import RequestStatus, Sequence


class Stop(NamedTuple):
    status: RequestStatus
    stop_reason: int | str | None = None
    """The stop token id or stop string; None for end-of-sequence and length."""


def check_stop(
    sequence: Sequence, eos_token_ids: frozenset[int], max_model_len: int
) -> Stop | None:
    """Return how the last token of `sequence` ends it, or None if it continues."""
    params = sequence.request.params
    token_id = sequence.token_ids[-1]
    num_output_tokens = sequence.num_output_tokens
    if num_output_tokens >= params.min_tokens:
        if token_id in eos_token_ids and not params.ignore_eos:
            return Stop(RequestStatus.FINISHED_STOPPED)
        if token_id in params.stop_token_ids:
            return Stop(RequestStatus.FINISHED_STOPPED, token_id)
    if num_output_tokens >= params.max_tokens or sequence.num_tokens >= max_model_len:
        return Stop(RequestStatus.FINISHED_LENGTH_CAPPED)
    return None
