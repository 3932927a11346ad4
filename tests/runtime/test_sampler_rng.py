"""The hash that gives every token its uniform number."""

import hashlib

import pytest
from sampler_twin import make_sequence

from minivllm.runtime.sampling_rng import request_seed, uniform, uniform_for_next_token
from minivllm.sampling_params import SamplingParams


def test_the_number_is_the_top_53_bits_of_a_hash_of_three_fixed_width_integers():
    key = (5).to_bytes(8, "little") + (2).to_bytes(8, "little") + (77).to_bytes(8, "little")
    top = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") // 2**11
    assert uniform(5, 2, 77) == top / 2**53


def test_numbers_stay_the_same_from_version_to_version():
    # A seed is a promise to whoever wrote it down: changing these breaks every reproduced text.
    assert uniform(0, 0, 0) == 0.156742553465558
    assert uniform(-1, 3, 4096) == 0.31075877506621996
    assert request_seed(make_sequence(SamplingParams(), request_id="0").request, 0) == 5857645148978988075


@pytest.mark.parametrize("seed", [-(2**63), -1, 0, 2**63 - 1])
def test_every_seed_that_a_request_may_bring_gives_a_number_under_one(seed):
    assert 0.0 <= uniform(seed, 0, 10**6) < 1.0


def test_neighbouring_keys_give_numbers_that_have_nothing_to_do_with_each_other():
    numbers = [uniform(s, i, p) for s in range(20) for i in range(5) for p in range(50)]
    assert len(set(numbers)) == len(numbers)
    assert sum(numbers) / len(numbers) == pytest.approx(0.5, abs=0.02)
    # Each tenth of [0, 1) has about its tenth of them (standard deviation 21).
    counts = [sum(tenth / 10 <= number < (tenth + 1) / 10 for number in numbers) for tenth in range(10)]
    assert all(abs(count - 500) < 85 for count in counts)


def test_the_position_counts_prompt_and_output_alike():
    params = SamplingParams(seed=9)
    before = make_sequence(params, prompt=[1, 2], output=[3, 4])
    assert uniform_for_next_token(before, 0) == uniform_for_next_token(make_sequence(params, prompt=[8, 8, 8, 8]), 0)
    assert uniform_for_next_token(before, 0) == uniform(9, 0, 4)


def test_a_request_without_a_seed_gets_one_from_the_engines_seed_and_its_id():
    seeds = {
        request_seed(make_sequence(SamplingParams(), request_id=request_id).request, engine_seed)
        for request_id in ("0", "1", "", "\ud800", "1/0")
        for engine_seed in (0, 1, 11, 10**30)
    }
    assert len(seeds) == 20
    assert all(-(2**63) <= seed < 2**63 for seed in seeds)
    assert request_seed(make_sequence(SamplingParams(seed=0)).request, 5) == 0
