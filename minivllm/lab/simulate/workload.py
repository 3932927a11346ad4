"""The simulated requests: arrival times, lengths of prompts and outputs, and shared prefixes.

Options that `vllm bench serve` has too keep its names and meanings. Gaps between arrivals follow a
gamma distribution with the burstiness as its shape: 1 is a Poisson process, and a smaller number is
more bursty. Lengths are uniform around their mean, or lognormal, with a long tail as in real
traffic. Each quantity has its own random generator, so that options for lengths do not change the
arrivals.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from minivllm.errors import ConfigError, SimulationError
from minivllm.lab.simulate.arrival import Arrival

Lengths = Literal["uniform", "lognormal"]

BURSTY = 0.25
"""Default burstiness of `--arrival bursty`: gaps vary twice as much as in a Poisson process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdOptions:
    num_prompts: int = 1000
    burstiness: float = 1.0
    random_input_len: int = 128
    random_output_len: int = 128
    random_range_ratio: float = 0.0
    length_distribution: Lengths = "uniform"
    length_sigma: float = 1.0
    """Standard deviation of the logarithm of a length; used by the lognormal distribution."""
    random_prefix_len: int = 0
    prefix_groups: int = 1
    urgent_share: float = 0.0
    """Share of the requests with priority 0; the others have priority 1. A share of 0
    gives all requests priority 0.
    """
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_prompts", "random_input_len", "random_output_len", "prefix_groups"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"--{name.replace('_', '-')} must be at least 1; got {getattr(self, name)}."
                )
        if not 0.0 < self.burstiness < np.inf:
            raise ConfigError(f"--burstiness must be above 0; got {self.burstiness:g}.")
        if not 0.0 <= self.random_range_ratio < 1.0:
            raise ConfigError(
                "--random-range-ratio must be at least 0 and below 1; got"
                f" {self.random_range_ratio:g}."
            )
        if not 0.0 < self.length_sigma <= 3.0:
            raise ConfigError(
                f"--length-sigma must be above 0 and at most 3; got {self.length_sigma:g}."
            )
        if not 0.0 <= self.urgent_share <= 1.0:
            raise ConfigError(f"--urgent-share must be from 0 to 1; got {self.urgent_share:g}.")
        for name in ("random_prefix_len", "seed"):
            if getattr(self, name) < 0:
                raise ConfigError(
                    f"--{name.replace('_', '-')} must be at least 0; got {getattr(self, name)}."
                )
        if self.prefix_groups > 1 and not self.random_prefix_len:
            raise ConfigError(
                "--prefix-groups has no effect without a shared prefix: also set"
                " --random-prefix-len."
            )


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
    group_of = (
        groups.integers(options.prefix_groups, size=count).tolist() if prefix else [None] * count
    )
    urgent = priorities.random(count) < options.urgent_share
    priority_of = np.where(urgent, 0, 1 if options.urgent_share else 0)
    columns = (np.cumsum(gaps).tolist(), prompt_lens.tolist(), output_lens.tolist(), group_of)
    rows = zip(*columns, priority_of.tolist(), strict=True)
    return [
        Arrival(at, prompt, output, group, prefix, priority)
        for at, prompt, output, group, priority in rows
    ]


def at_rate(crowd: list[Arrival], rate: float) -> list[Arrival]:
    """Scale the arrivals to `rate` requests per second on average; infinity sends all at once."""
    if not rate > 0:
        raise ConfigError(
            f"--rate must be more than 0 requests per second, or inf for all at once; got {rate:g}."
        )
    return [arrival._replace(at=arrival.at / rate) for arrival in crowd]


def check_fits(crowd: list[Arrival], max_model_len: int) -> None:
    """Raise `SimulationError` if the engine would refuse a prompt."""
    longest = max(crowd, key=lambda arrival: arrival.prompt_tokens)
    if longest.prompt_tokens >= max_model_len:
        raise SimulationError(
            f"A prompt has {longest.prompt_tokens} tokens, but max_model_len is {max_model_len}"
            " and must also hold one output token: ask for shorter prompts, or raise"
            " --max-model-len."
        )


def _lengths(options: CrowdOptions, mean: int, rng: np.random.Generator) -> np.ndarray:
    if options.length_distribution == "lognormal":
        sigma = options.length_sigma
        # The mean of a lognormal distribution is exp(mu + sigma**2 / 2).
        drawn = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, options.num_prompts)
        return np.maximum(np.rint(drawn), 1).astype(int)
    low, high = (
        int(mean * (1 - options.random_range_ratio)),
        int(mean * (1 + options.random_range_ratio)),
    )
    return rng.integers(max(low, 1), max(high, 1), size=options.num_prompts, endpoint=True)
