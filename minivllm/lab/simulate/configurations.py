"""Several configurations in one command, such as `--scheduling-policy fcfs,priority`.

Every option in `VARIED` takes a list. Each combination is one simulation of the same requests and
one row of the table.
"""

import argparse
from collections.abc import Mapping
from itertools import product

from minivllm.config import EngineConfig
from minivllm.lab.simulate.arrivals import Arrival
from minivllm.lab.simulate.run import Setup
from minivllm.lab.simulate.step_times import Fit

VARIED = {
    "replicas": "replicas",
    "router": "router",
    "rate": "requests/s",
    "scheduling_policy": "policy",
    "batching": "batching",
    "kv_cache_allocator": "memory",
    "max_num_batched_tokens": "budget",
    "max_num_seqs": "slots",
    "num_gpu_blocks_override": "blocks",
    "acceptance_rate": "accepted",
}
"""Option that can have several values -> title of the option's column."""
COMFORTABLE = 0.8
"""Share of the highest possible rate that is used if no rate is given."""
_OF_SETUP = ("replicas", "router", "rate", "acceptance_rate")


def setups(
    args: argparse.Namespace, common: Mapping[str, object], rates: list[float | None]
) -> list[Setup]:
    """Return every combination; `common` has the engine's other options.

    Raises `ConfigError` if the engine would refuse a combination.
    """
    given = vars(args) | {"rate": rates, "acceptance_rate": args.acceptance_rate or [None]}
    found = []
    for values in product(*(given[name] for name in VARIED)):
        options = dict(zip(VARIED, values, strict=True))
        of_setup = {name: options.pop(name) for name in _OF_SETUP}
        found.append(Setup(EngineConfig(**common, **options), seed=args.seed, **of_setup))
    return found


def value_of(setup: Setup, name: str) -> object:
    """The value of an option of `VARIED`."""
    return getattr(setup if name in _OF_SETUP else setup.config, name)


def varied(all_setups: list[Setup]) -> list[str]:
    """Return the options in which the setups differ."""
    return [name for name in VARIED if len({value_of(setup, name) for setup in all_setups}) > 1]


def comfortable_rate(crowd: list[Arrival], setup: Setup, fit: Fit) -> float:
    """Estimate the requests per second that keep the replicas busy for 80 % of the time.

    Assumes average lengths, no cache hits, and full batches, so for static ones it is too high.
    """
    config = setup.config
    budget = config.max_num_batched_tokens
    prompt = sum(arrival.prompt_tokens for arrival in crowd) / len(crowd)
    output = sum(arrival.output_tokens for arrival in crowd) / len(crowd)
    paged = config.kv_cache_allocator == "paged"
    each = prompt + output if paged else config.max_model_len
    room = config.num_gpu_blocks_override * config.block_size / each
    seqs = 1 if config.batching == "sequential" else config.max_num_seqs
    slots = max(1, min(seqs, int(room), budget))
    model = fit.model(budget)
    step = model.seconds(slots, slots, int(slots * (prompt + output / 2)))
    # Decodes come first; prompts get the rest of the budget.
    chunk = max(1, min(int(prompt), budget - slots))
    longer = model.seconds(min(slots + chunk, budget), slots, 0) - model.seconds(slots, slots, 0)
    seconds = output * step / slots + prompt / chunk * max(0.0, longer)
    return COMFORTABLE * setup.replicas / seconds


def show_value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
