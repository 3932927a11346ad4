"""Drawn requests are reproducible, with the requested lengths and gaps."""

import numpy as np
import pytest

from minivllm.errors import ConfigError, SimulationError
from minivllm.lab.simulate.workload import CrowdOptions, at_rate, check_fits, draw_crowd

MANY = 20_000


def test_a_seed_draws_the_same_crowd_whose_groups_share_a_prefix_as_part_of_the_prompt():
    options = {"num_prompts": 200, "random_input_len": 10}
    groups = {"random_prefix_len": 32, "prefix_groups": 4}
    first = draw_crowd(CrowdOptions(**options, **groups, seed=1), 512)
    assert first == draw_crowd(CrowdOptions(**options, **groups, seed=1), 512)
    assert first != draw_crowd(CrowdOptions(**options, **groups, seed=2), 512)
    assert {one.prefix_group for one in first} == {0, 1, 2, 3}
    assert {(one.prefix_tokens, one.prompt_tokens) for one in first} == {(32, 42)}


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gaps_have_the_mean_of_the_rate_and_the_spread_of_the_burstiness(burstiness):
    crowd = at_rate(
        draw_crowd(CrowdOptions(num_prompts=MANY, burstiness=burstiness), 512), rate=5.0
    )
    gaps = np.diff([one.at for one in crowd])
    assert gaps.mean() == pytest.approx(0.2, rel=0.05)
    # A gamma distribution of shape k has a standard deviation of 1 / sqrt(k) of its mean.
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.05)


def test_uniform_lengths_fill_their_range_and_no_more():
    crowd = draw_crowd(
        CrowdOptions(num_prompts=MANY, random_input_len=100, random_range_ratio=0.5), 512
    )
    lengths = [one.prompt_tokens for one in crowd]
    assert (min(lengths), max(lengths)) == (50, 150)
    assert np.mean(lengths) == pytest.approx(100, rel=0.02)
    fixed = draw_crowd(CrowdOptions(num_prompts=20, random_output_len=7), 512)
    assert {one.output_tokens for one in fixed} == {7}


def test_lognormal_lengths_have_the_mean_that_was_asked_for_and_a_long_tail():
    options = CrowdOptions(
        num_prompts=MANY, random_output_len=100, length_distribution="lognormal", length_sigma=0.8
    )
    lengths = np.array([one.output_tokens for one in draw_crowd(options, 100_000)])
    assert lengths.mean() == pytest.approx(100, rel=0.03)
    assert np.median(lengths) == pytest.approx(100 * np.exp(-0.32), rel=0.05)
    cut = draw_crowd(options, 300)
    assert max(one.prompt_tokens + one.output_tokens for one in cut) == 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"random_range_ratio": 1.0}, "--random-range-ratio must be at least 0 and below 1"),
        ({"urgent_share": 1.5}, "--urgent-share must be from 0 to 1"),
        ({"prefix_groups": 3}, "--prefix-groups has no effect"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        CrowdOptions(**options)


def test_a_prompt_that_the_engine_would_refuse_is_found_before_anything_runs():
    crowd = draw_crowd(CrowdOptions(num_prompts=3, random_input_len=512), 512)
    with pytest.raises(SimulationError, match=r"A prompt has 512 tokens, but max_model_len is 512"):
        check_fits(crowd, 512)
    check_fits(crowd, 513)
