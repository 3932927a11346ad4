"""When a sequence ends, at the exact limits."""

import pytest

from minivllm.core.request import Request, RequestStatus, Sequence, Stop, check_stop
from minivllm.sampling_params import SamplingParams

EOS, WORD, END = 9, 1, 5
BY_EOS = Stop(RequestStatus.FINISHED_STOPPED)
BY_EOS_AS_TOKEN = Stop(RequestStatus.FINISHED_STOPPED, EOS)
BY_TOKEN = Stop(RequestStatus.FINISHED_STOPPED, END)
BY_LENGTH = Stop(RequestStatus.FINISHED_LENGTH_CAPPED)


def after(output: list[int], max_model_len: int = 100, **params: object) -> Stop | None:
    """The stop for a prompt of three tokens with this output."""
    request = Request("r", [1, 2, 3], SamplingParams(**{"max_tokens": 50, **params}))
    sequence: Sequence = request.sequences[0]
    for token_id in output:
        sequence.append_token(token_id)
    return check_stop(sequence, frozenset({EOS}), max_model_len)


@pytest.mark.parametrize(
    ("output", "params", "stop"),
    [
        ([WORD], {}, None),
        ([EOS], {}, BY_EOS),
        ([EOS, WORD], {}, None),
        ([EOS], {"ignore_eos": True}, None),
        ([END], {"stop_token_ids": [4, END]}, BY_TOKEN),
        ([END], {"stop_token_ids": [4]}, None),
        ([END], {"stop_token_ids": [END], "ignore_eos": True}, BY_TOKEN),
        ([EOS], {"stop_token_ids": [EOS], "ignore_eos": True}, BY_EOS_AS_TOKEN),
        ([EOS], {"stop_token_ids": [EOS]}, BY_EOS),
    ],
)
def test_a_stop_token_ends_a_sequence(output, params, stop):
    assert after(output, **params) == stop


@pytest.mark.parametrize(("ending", "params"), [(EOS, {}), (END, {"stop_token_ids": [END]})])
def test_a_stop_token_is_ignored_before_min_tokens_and_counts_afterwards(ending, params):
    for number in range(1, 6):
        stop = after([WORD] * (number - 1) + [ending], min_tokens=4, **params)
        assert (stop is None) == (number < 4), f"token {number} of at least 4"


@pytest.mark.parametrize(
    ("output", "params", "stop"),
    [
        ([WORD] * 2, {"max_tokens": 3}, None),
        ([WORD] * 3, {"max_tokens": 3, "min_tokens": 3}, BY_LENGTH),
        ([WORD] * 3, {"max_model_len": 7}, None),
        ([WORD] * 4, {"max_model_len": 7}, BY_LENGTH),
        ([EOS] * 3, {"max_tokens": 5, "min_tokens": 5, "max_model_len": 6}, BY_LENGTH),
        ([WORD, END], {"max_tokens": 2, "stop_token_ids": [END]}, BY_TOKEN),
        ([WORD, EOS], {"max_model_len": 5}, BY_EOS),
    ],
)
def test_a_length_limit_overrides_min_tokens_but_a_stop_token_has_priority(output, params, stop):
    """`max_tokens` counts the output only; `max_model_len` also counts the prompt."""
    assert after(output, **params) == stop
