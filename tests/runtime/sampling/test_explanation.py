"""Explanations of sampled tokens, compared with the sampler's slow reference implementation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.model.sampler_reference import (
    TooCloseError,
    arrival_time,
    best_first,
    make_sequence,
    processed_logits,
    reference_sample,
)

from minivllm.core.request import Sequence
from minivllm.runtime.sampling.explanation import NUM_BEST, Explanation
from minivllm.runtime.sampling.sampler import Sampler, key_for_next_token
from minivllm.sampling_params import SamplingParams

EOS = 2
SETTINGS = [
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.3, "top_k": 5},
    {"temperature": 0.9, "min_p": 0.1},
    {"temperature": 1.0, "top_k": 20, "top_p": 0.8, "min_p": 0.01, "seed": 7},
    {"temperature": 0.0, "repetition_penalty": 1.5, "presence_penalty": 1.0},
    {"temperature": 0.8, "frequency_penalty": 0.7, "logit_bias": {3: 9.0, 4: -6.0}},
    {"temperature": 0.0, "min_tokens": 9, "stop_token_ids": [6], "max_tokens": 20},
    {"temperature": 1.0, "min_tokens": 9, "top_p": 0.5, "max_tokens": 20},
]


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


def sequence_of(params: dict, index: int = 0) -> Sequence:
    return make_sequence(
        SamplingParams(**params), prompt=[3, 5], output=[9, 9, 4], request_id=f"r{index}"
    )


def explained(logits: torch.Tensor, sequence: Sequence) -> tuple[int, Explanation]:
    sampled = Sampler({EOS})(logits.unsqueeze(0), [sequence], {sequence})[0]
    return sampled.token_id, sampled.explanation


def check_against_the_reference(logits: torch.Tensor, sequence: Sequence) -> None:
    raw, params = logits.numpy(), sequence.request.params
    key = key_for_next_token(sequence, 0)
    expected = reference_sample(raw, sequence, {EOS}, key)
    token_id, found = explained(logits, sequence)
    assert token_id == expected.token_id
    processed = processed_logits(raw, sequence, {EOS})
    tempered = softmax(processed / (params.temperature or 1.0))
    by_id = {candidate.token_id: candidate for candidate in found.candidates}
    # Equally likely tokens may replace each other.
    best = sorted((processed[at] for at in by_id), reverse=True)[:NUM_BEST]
    assert best == [processed[at] for at in best_first(processed)[: len(best)]]
    left = expected.probabilities[expected.probabilities > 0]
    if left.min() < 1e-12:  # whether such a share is zero depends on rounding
        raise TooCloseError
    assert found.num_left == len(left)
    for at, candidate in by_id.items():
        masked = processed[at] == -np.inf
        assert candidate.logit == raw[at]
        assert candidate.processed_logit == (
            None if masked else pytest.approx(processed[at], abs=1e-5)
        )
        assert candidate.probability == pytest.approx(softmax(raw)[at], abs=1e-6)
        assert candidate.tempered_probability == pytest.approx(tempered[at], abs=1e-6)
        assert candidate.final_probability == pytest.approx(expected.probabilities[at], abs=1e-6)
        assert (candidate.final_probability > 0) == (expected.probabilities[at] > 0)
        takes_part = params.temperature > 0 and candidate.final_probability > 0
        assert candidate.draw == (pytest.approx(arrival_time(key, at)) if takes_part else None)
        assert (candidate.cut_by is None) == (not masked and (not params.temperature or takes_part))
    if params.temperature > 0:
        arrivals = {
            at: arrival_time(key, at) / probability
            for at, probability in enumerate(expected.probabilities)
            if probability > 0
        }
        first_two = sorted(arrivals, key=arrivals.get)[:2]
        assert first_two[0] == token_id and set(first_two) <= set(by_id)


@settings(max_examples=60)
@given(
    st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=40),
    st.sampled_from(SETTINGS),
    st.integers(0, 10**6),
)
def test_an_explanation_of_any_logits_equals_the_reference(values, params, index):
    values += [0.0] * (10 - len(values))  # the settings name token ids up to 9
    try:
        check_against_the_reference(torch.tensor(values), sequence_of(params, index))
    except TooCloseError:
        return


def test_the_cuts_say_what_each_stage_left():
    logits = torch.log(torch.tensor([0.4, 0.3, 0.1, 0.1, 0.05, 0.03, 0.02]))
    params = {"temperature": 1.0, "min_p": 0.06, "top_k": 5, "top_p": 0.75, "min_tokens": 4}
    sequence = make_sequence(SamplingParams(**params, stop_token_ids=[3]), prompt=[6])
    token_id, found = explained(logits, sequence)
    # Mask: 3 and EOS, 2. Then 0.6 of the mass is 0.4 + 0.3 + 0.05 + 0.03 + 0.02, the best has 0.5.
    assert [(cut.name, cut.value, cut.num_left) for cut in found.cuts] == [
        ("min_tokens", 4, 5), ("min_p", 0.06, 4), ("top_k", 5, 4), ("top_p", 0.75, 2)
    ]  # fmt: skip
    assert found.num_left == 2 and found.vocab_size == 7 and token_id in (0, 1)
    assert {candidate.token_id: candidate.cut_by for candidate in found.candidates} == {
        0: None, 1: None, 2: "min_tokens", 3: "min_tokens", 4: "top_p", 5: "top_p", 6: "min_p"
    }  # fmt: skip


def test_a_token_that_the_model_excludes_is_no_candidate_and_rounding_can_cut_one():
    logits = torch.tensor([1.0, -math.inf, 0.5, 0.1])
    _, found = explained(logits, sequence_of({"temperature": 1.0}))
    assert [candidate.token_id for candidate in found.candidates] == [0, 2, 3]
    logits = torch.tensor([5.0, 4.0, 3.0, -200.0])
    for params, reason in (({"top_k": 3}, "top_k"), ({"temperature": 1.0}, "rounding")):
        _, found = explained(logits, sequence_of(params))
        assert [candidate.cut_by for candidate in found.candidates] == [None, None, None, reason]


def test_a_row_of_a_mixed_batch_is_explained_as_if_it_were_alone():
    logits = torch.randn(len(SETTINGS), 300, generator=torch.Generator().manual_seed(9))
    sequences = [sequence_of(params, index) for index, params in enumerate(SETTINGS)]
    plain = Sampler({EOS})(logits, sequences)
    watched = Sampler({EOS})(logits, sequences, set(sequences[::2]))
    assert [token.token_id for token in watched] == [token.token_id for token in plain]
    assert all(token.explanation is None for token in [*plain, *watched[1::2]])
    for row in range(0, len(sequences), 2):
        alone = explained(logits[row].clone(), sequences[row])
        assert (watched[row].token_id, watched[row].explanation) == alone
