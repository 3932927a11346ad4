"""Check whether a token ends its sequence: end-of-sequence, stop token ids, grammar, length.

Before `min_tokens`, end-of-sequence and stop tokens do not end the sequence. The length limits
always apply, so every sequence ends. `minivllm.engine.stop_strings` finds stop *strings* in text.

Source: vLLM `vllm/v1/core/sched/utils.py` (`check_stop`).
"""

from typing import NamedTuple

from minivllm.core.request import RequestStatus, Sequence


class Stop(NamedTuple):
    status: RequestStatus
    stop_reason: int | str | None = None
    """The stop token id or the stop string; None for end-of-sequence, grammar and length."""


def check_stop(
    sequence: Sequence, eos_token_ids: frozenset[int], max_model_len: int
) -> Stop | None:
    """Return how the last token of `sequence` ends the sequence, or None if it continues."""
    params = sequence.request.params
    token_id = sequence.token_ids[-1]
    num_output_tokens = sequence.num_output_tokens
    if num_output_tokens >= params.min_tokens:
        if token_id in eos_token_ids and not params.ignore_eos:
            return Stop(RequestStatus.FINISHED_STOPPED)
        if token_id in params.stop_token_ids:
            return Stop(RequestStatus.FINISHED_STOPPED, token_id)
    grammar = sequence.request.grammar
    if grammar is not None and grammar.is_terminated(sequence):
        return Stop(RequestStatus.FINISHED_STOPPED)
    if num_output_tokens >= params.max_tokens or sequence.num_tokens >= max_model_len:
        return Stop(RequestStatus.FINISHED_LENGTH_CAPPED)
    return None
