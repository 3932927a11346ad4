"""The hash that gives every token its random number."""

import math

import pytest
import torch
from support.model.sampler_reference import make_sequence

from minivllm.runtime.sampling.sampler import (
    draw_key,
    exponentials,
    key_for_next_token,
    request_seed,
)
from minivllm.sampling_params import SamplingParams


def test_the_numbers_are_those_of_splitmix64():
    # The first three outputs from the state 1234567 of its authors' reference code.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    expected = [-math.log(((bits >> 12) + 0.5) / 2**52) for bits in published]
    found = exponentials(torch.tensor([1234567]), torch.arange(3))[0].tolist()
    assert found == pytest.approx(expected, rel=1e-15)


def test_numbers_stay_the_same_from_version_to_version():
    # Changing these breaks every text that was generated with a seed.
    assert draw_key(0, 0, 0) == 2891389769238885931
    assert draw_key(-1, 3, 4096) == 5732487592306032896
    request = make_sequence(SamplingParams(), request_id="0").request
    assert request_seed(request, 0) == 5857645148978988075


def test_the_position_counts_prompt_and_output_alike():
    params = SamplingParams(seed=9)
    before = make_sequence(params, prompt=[1, 2], output=[3, 4])
    assert key_for_next_token(before, 0) == key_for_next_token(
        make_sequence(params, prompt=[8, 8, 8, 8]), 0
    )
    assert key_for_next_token(before, 0) == draw_key(9, 0, 4)


def test_a_request_without_a_seed_derives_one_from_the_engines_seed_and_its_id():
    seeds = {
        request_seed(make_sequence(SamplingParams(), request_id=request_id).request, engine_seed)
        for request_id in ("0", "1", "", "\ud800", "1/0")
        for engine_seed in (0, 1, 11, 10**30)
    }
    assert len(seeds) == 20
    assert all(-(2**63) <= seed < 2**63 for seed in seeds)
    assert request_seed(make_sequence(SamplingParams(seed=0)).request, 5) == 0
