"""Every range of `SamplingParams`: values inside are kept, values outside are refused by name."""

import dataclasses
import math

import numpy as np
import pytest

from minivllm.errors import InvalidSamplingParamsError
from minivllm.sampling_params import MAX_LOGPROBS, RequestOutputKind, SamplingParams

WHOLE_NUMBERS = [
    "n", "best_of", "beam_width", "max_tokens", "min_tokens", "top_k", "seed", "logprobs",
    "prompt_logprobs",
]  # fmt: skip
NUMBERS = [
    "temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
]  # fmt: skip
FLAGS = ["include_stop_str_in_output", "ignore_eos", "skip_special_tokens"]

IN_RANGE = [
    ("n", [1, 16, 10**9]),
    ("best_of", [None, 1, 16]),
    ("use_beam_search", [False]),
    ("beam_width", [None, 2, 16]),
    ("length_penalty", [1.0]),
    ("early_stopping", [False]),
    ("max_tokens", [1, 10**9]),
    ("min_tokens", [0, 16]),
    ("temperature", [0, 0.0, 5e-324, 1, 100.0]),
    ("top_p", [5e-324, 0.5, 1, 1.0]),
    ("min_p", [0, 0.0, 1.0]),
    ("top_k", [0, 1, 10**9]),
    ("repetition_penalty", [0.01, 1, 100.0]),
    ("presence_penalty", [-2, -2.0, 0.0, 2.0]),
    ("frequency_penalty", [-2, -2.0, 0.0, 2.0]),
    ("seed", [None, -(2**63), 0, 2**63 - 1]),
    ("logprobs", [None, 0, MAX_LOGPROBS]),
    ("prompt_logprobs", [None, 0, MAX_LOGPROBS]),
    ("logit_bias", [None, {}, {0: -100.0, 7: 100}]),
    ("stop", [[], ["a", "bc"]]),
    ("stop_token_ids", [[], [0, 5]]),
    ("output_kind", list(RequestOutputKind)),
    *[(name, [True, False]) for name in FLAGS],
]

OUT_OF_RANGE = [
    ("n", [0, -1]),
    ("best_of", [0, -1]),
    ("use_beam_search", [True, 0, 1, None, "yes"]),  # True would be a width of one
    ("beam_width", [0, 1, -2]),
    ("length_penalty", [0.5, -10.1, 10.1]),  # 0.5 without beams
    ("early_stopping", [True, "never", "always", 1, None]),
    ("max_tokens", [0, -1]),
    ("min_tokens", [-1, 17]),
    ("temperature", [-5e-324, 100.00001, 10**400]),
    ("top_p", [0, 0.0, -0.1, 1.0000001]),
    ("min_p", [-5e-324, 1.0000001]),
    ("top_k", [-2]),
    ("repetition_penalty", [0, 0.0, 0.0099, -1.0, 100.00001]),
    ("presence_penalty", [-2.0000001, 2.0000001]),
    ("frequency_penalty", [-2.0000001, 2.0000001]),
    ("seed", [-(2**63) - 1, 2**63]),
    ("logprobs", [-1, MAX_LOGPROBS + 1]),
    ("prompt_logprobs", [-1, MAX_LOGPROBS + 1]),
    ("logit_bias", [{-1: 0.0}, {1.5: 0.0}, {"1": 0.0}, {True: 0.0}, {1: 100.1}, {1: -100.1}]),
    ("logit_bias", [{1: "2"}, {1: True}, {1: math.nan}, {1: math.inf}, [1, 2], 5]),
    ("stop", ["", [""], ["a", ""], [1], [None], 5, None, {"a": 1}, [b"a"]]),
    ("stop_token_ids", [[-1], [1.0], ["1"], [True], [None], 5, None, "12"]),
    ("output_kind", ["delta", None, 1]),
    *[(name, [0, 1, None, "yes"]) for name in FLAGS],
]


def cases(table: list[tuple[str, list]]) -> list:
    return [
        pytest.param(name, value, id=f"{name}={value!r:.40}")
        for name, values in table
        for value in values
    ]


def test_both_spellings_of_no_top_k_are_equal_for_samples_and_beams():
    assert SamplingParams(top_k=-1) == SamplingParams(top_k=0)
    # Early vLLM servers had -1 as the default, and sent it with beams.
    beams = SamplingParams(best_of=3, use_beam_search=True, temperature=0, top_k=-1)
    assert beams.num_sequences == 3


def test_the_defaults_are_those_of_vllm():
    assert dataclasses.asdict(SamplingParams()) == {
        "n": 1, "best_of": None, "beam_width": None, "use_beam_search": False,
        "length_penalty": 1.0, "early_stopping": False,
        "max_tokens": 16, "min_tokens": 0, "temperature": 1.0, "top_p": 1.0, "top_k": 0,
        "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
        "seed": None, "logprobs": None, "prompt_logprobs": None, "logit_bias": None,
        "stop": [], "stop_token_ids": [], "include_stop_str_in_output": False,
        "ignore_eos": False, "skip_special_tokens": True, "structured_outputs": None,
        "output_kind": RequestOutputKind.CUMULATIVE,
    }  # fmt: skip


@pytest.mark.parametrize(("name", "value"), cases(IN_RANGE))
def test_a_value_inside_the_range_is_kept_as_it_is(name, value):
    kept = getattr(SamplingParams(**{name: value}), name)
    assert kept == value
    assert type(kept) is type(value)


@pytest.mark.parametrize(("name", "value"), cases(OUT_OF_RANGE))
def test_a_value_outside_the_range_is_refused_in_one_sentence_with_its_name(name, value):
    with pytest.raises(InvalidSamplingParamsError) as error:
        SamplingParams(**{name: value})
    sentence = str(error.value)
    assert sentence.startswith(name)
    assert sentence.endswith(".")
    assert "\n" not in sentence


NONE_MEANS_NOTHING = dict.fromkeys(["max_tokens", "min_tokens", "top_k"], (None,))
NO_NUMBERS = [math.nan, math.inf, -math.inf, True, False, "1", [1], 1j]


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_not_a_finite_number_is_refused(name):
    for value in (*NO_NUMBERS, None):
        with pytest.raises(InvalidSamplingParamsError, match=f"^{name} must be a finite number"):
            SamplingParams(**{name: value})


@pytest.mark.parametrize("name", WHOLE_NUMBERS)
def test_what_is_not_a_whole_number_is_refused(name):
    for value in (*NO_NUMBERS, 1.0, 2.5, *NONE_MEANS_NOTHING.get(name, ())):
        with pytest.raises(InvalidSamplingParamsError, match=f"^{name} must be a whole number"):
            SamplingParams(**{name: value})


def test_numpy_numbers_are_accepted():
    params = SamplingParams(temperature=np.float64(0.5), logit_bias={1: np.float64(2.0)})
    assert params.temperature == 0.5 and params.logit_bias == {1: 2.0}


@pytest.mark.parametrize("params", [{"beam_width": 4}, {"use_beam_search": True, "best_of": 4}])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_beams_may_be_asked_for_by_their_width_or_as_vllm_once_did(params, temperature):
    asked = SamplingParams(
        n=2, temperature=temperature, length_penalty=0.5, early_stopping="never", **params
    )
    assert asked.use_beam_search
    assert (asked.n, asked.num_sequences) == (2, 4)


BEAMS = {"n": 2, "use_beam_search": True, "temperature": 0}


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"n": 3, "best_of": 2}, "best_of is 2 but n is 3"),
        ({"n": 3, "beam_width": 2}, "beam_width is 2 but n is 3"),
        ({"best_of": 3, "beam_width": 3}, "best_of and beam_width"),
        ({**BEAMS, "temperature": 0.7}, "does not support temperature"),
        ({**BEAMS, "stop": ["x"]}, "does not support stop"),
        ({**BEAMS, "n": 1}, "at least two beams"),
        ({**BEAMS, "early_stopping": "sometimes"}, "early_stopping must be"),
        ({**BEAMS, "prompt_logprobs": 1}, "prompt_logprobs"),
        ({"length_penalty": 2.0}, "length_penalty .* beam_width"),
        (
            {"min_tokens": 5, "max_tokens": 4},
            "min_tokens is 5 but max_tokens is 4: lower .* or raise",
        ),
        # Only the wrong one of many values is named.
        (
            {"logit_bias": {1: 0.0, 7: 101}},
            r"logit_bias value must be a finite number, from -100 to 100; got 101\.$",
        ),
        ({"logit_bias": {"7": 0.0}}, "logit_bias key must be a whole number, at least 0; got '7'"),
        ({"logit_bias": np.int64(3)}, r"logit_bias must be a dict; got np.int64\(3\)"),
        ({"stop_token_ids": [3, -1]}, "stop_token_ids must be a whole number, at least 0; got -1"),
    ],
)
def test_each_contradiction_between_parameters_is_refused_with_its_own_sentence(params, sentence):
    with pytest.raises(InvalidSamplingParamsError, match=sentence):
        SamplingParams(**params)


def test_parameters_are_immutable_after_validation():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SamplingParams().temperature = -1.0
