"""Every range of `SamplingParams`: values inside are kept, values outside are refused by name."""

import math

import pytest

from minivllm.errors import InvalidSamplingParamsError
from minivllm.sampling_params import MAX_LOGPROBS, RequestOutputKind, SamplingParams

NO_NUMBERS = [math.nan, math.inf, -math.inf, True, False, "1", [1], 1j]
RANGES = {
    "n": ([1, 10**9], [0, -1]),
    "best_of": ([None, 1, 16], [0, -1]),
    "use_beam_search": ([False], [True, 0, 1, None, "yes"]),  # True would be a width of one
    "beam_width": ([None, 2, 16], [0, 1, -2]),
    "length_penalty": ([1.0], [0.5, -10.1, 10.1]),  # 0.5 without beams
    "early_stopping": ([False], [True, "never", "always", 1, None]),
    "max_tokens": ([1, 10**9], [0, -1, None]),
    "min_tokens": ([0, 16], [-1, 17, None]),
    "temperature": ([0, 0.0, 5e-324, 1, 100.0], [-5e-324, 100.00001, 10**400, None]),
    "top_p": ([5e-324, 0.5, 1, 1.0], [0, 0.0, -0.1, 1.0000001, None]),
    "min_p": ([0, 0.0, 1.0], [-5e-324, 1.0000001, None]),
    "top_k": ([0, 1, 10**9], [-2, None]),
    "repetition_penalty": ([0.01, 1, 100.0], [0, 0.0, 0.0099, -1.0, 100.00001, None]),
    "presence_penalty": ([-2, -2.0, 0.0, 2.0], [-2.0000001, 2.0000001, None]),
    "frequency_penalty": ([-2, -2.0, 0.0, 2.0], [-2.0000001, 2.0000001, None]),
    "seed": ([None, -(2**63), 0, 2**63 - 1], [-(2**63) - 1, 2**63]),
    "logprobs": ([None, 0, MAX_LOGPROBS], [-1, MAX_LOGPROBS + 1]),
    "prompt_logprobs": ([None, 0, MAX_LOGPROBS], [-1, MAX_LOGPROBS + 1]),
    "logit_bias": (
        [None, {}, {0: -100.0, 7: 100}],
        [{-1: 0.0}, {1.5: 0.0}, {"1": 0.0}, {True: 0.0}, {1: 100.1}, {1: "2"}, {1: math.nan}, [1]],
    ),
    "stop": ([[], ["a", "bc"]], ["", [""], ["a", ""], [1], [None], 5, None, {"a": 1}, [b"a"]]),
    "stop_token_ids": ([[], [0, 5]], [[-1], [1.0], ["1"], [True], [None], 5, None, "12"]),
    "output_kind": (list(RequestOutputKind), ["delta", None, 1]),
    "include_stop_str_in_output": ([True, False], [0, 1, None, "yes"]),
    "ignore_eos": ([True, False], [0, 1, None, "yes"]),
    "skip_special_tokens": ([True, False], [0, 1, None, "yes"]),
}
"""Values that are kept, and values that are refused."""
NUMBERS = [
    "temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
]  # fmt: skip
WHOLE_NUMBERS = [
    "n", "best_of", "beam_width", "max_tokens", "min_tokens", "top_k", "seed", "logprobs",
    "prompt_logprobs",
]  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_a_value_inside_its_range_is_kept_and_one_outside_is_refused_by_name(name):
    inside, outside = RANGES[name]
    for value in inside:
        kept = getattr(SamplingParams(**{name: value}), name)
        assert kept == value and type(kept) is type(value)
    no_numbers = dict.fromkeys(NUMBERS, NO_NUMBERS)
    no_numbers |= {name: [*NO_NUMBERS, 1.0, 2.5] for name in WHOLE_NUMBERS}
    for value in [*outside, *no_numbers.get(name, [])]:
        with pytest.raises(InvalidSamplingParamsError) as error:
            SamplingParams(**{name: value})
        sentence = str(error.value)
        assert sentence.startswith(name) and sentence.endswith(".") and "\n" not in sentence


def test_both_spellings_of_no_top_k_are_equal_for_samples_and_beams():
    assert SamplingParams(top_k=-1) == SamplingParams(top_k=0)
    # Early vLLM servers had -1 as the default, and sent it with beams.
    beams = SamplingParams(best_of=3, use_beam_search=True, temperature=0, top_k=-1)
    assert beams.num_sequences == 3


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
        ({**BEAMS, "early_stopping": "sometimes"}, "early_stopping must be"),
        ({**BEAMS, "prompt_logprobs": 1}, "prompt_logprobs"),
        ({"length_penalty": 2.0}, "length_penalty .* beam_width"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens is 5 but max_tokens is 4: lower .* raise"),
        # Only the wrong one of many values is named.
        ({"logit_bias": {1: 0.0, 7: 101}}, r"logit_bias value .* from -100 to 100; got 101\.$"),
        ({"stop_token_ids": [3, -1]}, "stop_token_ids must be a whole number, at least 0; got -1"),
    ],
)
def test_each_contradiction_between_parameters_is_refused_with_its_own_sentence(params, sentence):
    with pytest.raises(InvalidSamplingParamsError, match=sentence):
        SamplingParams(**params)
