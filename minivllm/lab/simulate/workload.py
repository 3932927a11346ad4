"""The simulated requests: arrival times, lengths of prompts and outputs, and shared prefixes.

Options that `vllm bench serve` has too keep its names and meanings. Gaps between arrivals follow a
gamma distribution with the burstiness as its shape: 1 is a Poisson process, and a smaller number is
more bursty. Lengths are uniform around their mean, or lognormal, with a long tail. Each quantity
has its own random generator, so that options for lengths do not change the arrivals.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from msgspec.structs import replace

from minivllm.checks import Positive, check_fields
from minivllm.errors import ConfigError, SimulationError
from minivllm.lab.simulate.arrivals import Arrival

Lengths = Literal["uniform", "lognormal"]

BURSTY = 0.25
"""Default burstiness of `--arrival bursty`: gaps vary twice as much as in a Poisson process."""
_Count = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdOptions:
    """Raises `ConfigError` for the first value that is invalid."""

    num_prompts: Positive = 1000
    burstiness: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    """Of the gaps between requests: 1 is poisson, a lower value makes bursts (bursty: 0.25)."""
    random_input_len: Positive = 128
    """Mean number of tokens in a prompt."""
    random_output_len: Positive = 128
    """Mean number of tokens in an answer."""
    random_range_ratio: Annotated[
        float, Meta(ge=0, lt=1, description="a number, at least 0 and below 1")
    ] = 0.0
    """Lengths are drawn uniformly from mean * (1 - ratio) to mean * (1 + ratio)."""
    length_distribution: Lengths = "uniform"
    """Distribution of lengths around their means."""
    length_sigma: Annotated[float, Meta(gt=0, le=3)] = 1.0
    """Length of a lognormal tail: standard deviation of the logarithm of a length."""
    random_prefix_len: _Count = 0
    """Tokens before each prompt, shared by all requests of a prefix group."""
    prefix_groups: Positive = 1
    """Number of different shared prefixes."""
    urgent_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Share of requests with priority 0, others 1 (--scheduling-policy priority). 0: all have 0."""
    seed: _Count = 0

    def __post_init__(self) -> None:
        check_fields(self, ConfigError)
        if self.prefix_groups > 1 and not self.random_prefix_len:
            why = "--prefix-groups has no effect without a shared prefix"
            raise ConfigError(f"{why}: also set --random-prefix-len.")


def draw_crowd(options: CrowdOptions, max_model_len: int) -> list[Arrival]:
    """Draw requests, in order of arrival, at a mean rate of one request per second.

    Lognormal lengths are cut so that prompt and output fit into `max_model_len`.
    """
    count, prefix = options.num_prompts, options.random_prefix_len
    arrivals, inputs, outputs, groups, priorities = np.random.default_rng(options.seed).spawn(5)
    gaps = arrivals.gamma(options.burstiness, 1.0 / options.burstiness, count)
    prompt_lens = prefix + _lengths(options, options.random_input_len, inputs)
    output_lens = _lengths(options, options.random_output_len, outputs)
    if options.length_distribution == "lognormal" and prefix + 2 <= max_model_len:
        prompt_lens = np.minimum(prompt_lens, max_model_len - 1)
        output_lens = np.minimum(output_lens, max_model_len - prompt_lens)
    group_of = groups.integers(options.prefix_groups, size=count).tolist()
    urgent = priorities.random(count) < options.urgent_share
    priority_of = np.where(urgent, 0, 1 if options.urgent_share else 0).tolist()
    columns = np.cumsum(gaps).tolist(), prompt_lens.tolist(), output_lens.tolist()
    return [
        Arrival(at, prompt, output, group if prefix else None, prefix, priority)
        for at, prompt, output, group, priority in zip(*columns, group_of, priority_of, strict=True)
    ]


def at_rate(crowd: list[Arrival], rate: float) -> list[Arrival]:
    """Scale the arrivals to `rate` requests per second on average; infinity sends all at once."""
    return [replace(arrival, at=arrival.at / rate) for arrival in crowd]


def check_fits(crowd: list[Arrival], max_model_len: int) -> None:
    """Raise `SimulationError` if the engine would refuse a prompt."""
    longest = max(arrival.prompt_tokens for arrival in crowd)
    if longest >= max_model_len:
        raise SimulationError(
            f"A prompt has {longest} tokens, but max_model_len is {max_model_len} and must also"
            " hold one output token: ask for shorter prompts, or raise --max-model-len."
        )


def _lengths(options: CrowdOptions, mean: int, rng: np.random.Generator) -> np.ndarray:
    if options.length_distribution == "lognormal":
        sigma = options.length_sigma
        # The mean of a lognormal distribution is exp(mu + sigma**2 / 2).
        drawn = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, options.num_prompts)
        return np.maximum(np.rint(drawn), 1).astype(int)
    low, high = (int(mean * (1 + sign * options.random_range_ratio)) for sign in (-1, 1))
    return rng.integers(max(low, 1), max(high, 1), size=options.num_prompts, endpoint=True)
