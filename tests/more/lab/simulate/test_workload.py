"""Drawn requests are reproducible, with the requested lengths and gaps."""

import numpy as np
import pytest

from minivllm.errors import ConfigError, SimulationError
from minivllm.lab.simulate.workload import CrowdOptions, at_rate, check_fits, draw_crowd

MANY = 20_000


def test_a_seed_draws_the_same_crowd_whose_groups_share_a_prefix_as_part_of_the_prompt():
    options = {"num_prompts": 200, "random_input_len": 10, "random_prefix_len": 32}
    first = draw_crowd(CrowdOptions(**options, prefix_groups=4, seed=1), 512)
    assert first == draw_crowd(CrowdOptions(**options, prefix_groups=4, seed=1), 512)
    assert first != draw_crowd(CrowdOptions(**options, prefix_groups=4, seed=2), 512)
    assert {arrival.prefix_group for arrival in first} == {0, 1, 2, 3}
    assert {(arrival.prefix_tokens, arrival.prompt_tokens) for arrival in first} == {(32, 42)}


@pytest.mark.parametrize("burstiness", [0.25, 4.0])
def test_gaps_have_the_mean_of_the_rate_and_the_spread_of_the_burstiness(burstiness):
    options = CrowdOptions(num_prompts=MANY, burstiness=burstiness)
    gaps = np.diff([arrival.at for arrival in at_rate(draw_crowd(options, 512), rate=5.0)])
    assert gaps.mean() == pytest.approx(0.2, rel=0.05)
    # A gamma distribution of shape k has a standard deviation of 1 / sqrt(k) of its mean.
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"random_range_ratio": 1.0}, "--random-range-ratio must be at least 0 and below 1"),
        ({"urgent_share": 1.5}, "--urgent-share must be from 0 to 1"),
        ({"prefix_groups": 3}, "--prefix-groups has no effect"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(options, message):
    with pytest.raises(ConfigError, match=message):
        CrowdOptions(**options)


def test_a_prompt_that_the_engine_would_refuse_is_found_before_anything_runs():
    crowd = draw_crowd(CrowdOptions(num_prompts=3, random_input_len=512), 512)
    with pytest.raises(SimulationError, match=r"A prompt has 512 tokens, but max_model_len is 512"):
        check_fits(crowd, 512)
    check_fits(crowd, 513)
