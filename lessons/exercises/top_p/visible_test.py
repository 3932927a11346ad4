"""The README's examples as tests, for `pytest visible_test.py`."""

import math

import torch
from logits_processors import to_weights

from minivllm.sampling_params import SamplingParams

LOGITS = torch.tensor([[math.log(weight) for weight in (8, 4, 2, 1, 1)]])


def kept(logits=LOGITS, **params):
    weights = to_weights(logits, [SamplingParams(**params)])
    return weights[0].nonzero().flatten().tolist()


def test_the_best_tokens_stay_until_they_have_the_mass():
    assert kept(top_p=0.7) == [0, 1]
    assert kept(top_p=0.4) == [0]


def test_top_p_is_of_what_top_k_has_left():
    assert kept(top_k=3) == [0, 1, 2]
    assert kept(top_k=3, top_p=0.9) == [0, 1, 2]
    assert kept(top_k=3, top_p=0.8) == [0, 1]


def test_of_tokens_that_tie_the_lower_ids_stay():
    assert kept(torch.tensor([[0.0, 1.0, 1.0, 1.0]]), top_k=2) == [1, 2]


def test_temperature_and_min_p():
    weights = to_weights(LOGITS, [SamplingParams(temperature=0.5, min_p=0.1)])[0]
    assert abs(weights[1] / weights[0] - 0.25) < 1e-9
    assert weights.nonzero().flatten().tolist() == [0, 1]
