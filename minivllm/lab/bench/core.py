"""`minivllm bench core`: the cost of planning a step, without a model and without torch.

The time of `Scheduler.schedule()` should depend only on the number of sequences, which all decode.
So each number runs with a small and a large pool, and with short and long contexts. All contexts
share a long prefix, so that long ones fit into the small pool.

Prompt lengths differ, because a sequence allocates and hashes a block every `BLOCK_SIZE` tokens. If
all did so in the same step, the median would not show that work.
"""

import argparse
import gc
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice, product
from random import Random

import numpy as np

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request
from minivllm.core.scheduler import Scheduler
from minivllm.events.bus import EventBus
from minivllm.lab.common.report import Report, tracked
from minivllm.sampling_params import SamplingParams

BLOCK_SIZE = 16
VOCAB_SIZE = 50_000
NUM_STEPS = 320  # timed steps of each scenario: enough for each sequence to fill twenty blocks
POOLS, CONTEXTS = (4096, 65536), (100, 4000)


@dataclass(frozen=True, slots=True)
class CoreScenario:
    num_running: int
    num_blocks: int
    context_len: int  # of each sequence when timing starts, in tokens


SCENARIOS = [CoreScenario(*each) for each in product((16, 256, 1024), POOLS, CONTEXTS)]


def build_decoding_scheduler(scenario: CoreScenario, bus: EventBus) -> Scheduler:
    """Build a scheduler in which all sequences are admitted and have computed their prompts."""
    manager = KVCacheManager(
        BlockPool(scenario.num_blocks, bus), BLOCK_SIZE, enable_prefix_caching=True, bus=bus
    )
    all_prompts = scenario.num_running * scenario.context_len  # fit into one step
    config = EngineConfig(max_num_seqs=scenario.num_running, max_num_batched_tokens=all_prompts)
    scheduler = Scheduler(config, manager, scenario.context_len + NUM_STEPS, bus)
    params = SamplingParams(max_tokens=NUM_STEPS)
    draw = partial(Random(0).choices, range(VOCAB_SIZE))
    num_shared = (scenario.context_len - BLOCK_SIZE) // BLOCK_SIZE * BLOCK_SIZE
    shared = draw(k=num_shared)
    for number in range(scenario.num_running):
        own = draw(k=scenario.context_len - num_shared - number % BLOCK_SIZE)
        scheduler.add_request(Request(str(number), shared + own, params, arrival_number=number))
    scheduler.schedule(now=0.0)
    return scheduler


def decode_steps(scheduler: Scheduler) -> Iterator[None]:
    """Before each yield, append a token to every sequence, as the model would."""
    # A sequence needs at most one new block per step, so the pool suffices for this step.
    while scheduler.kv_cache_manager.pool.num_free_blocks >= len(scheduler.running):
        for sequence in scheduler.running:
            sequence.append_token(sequence.num_tokens % VOCAB_SIZE)
        yield


def time_steps(scenario: CoreScenario) -> list[float]:
    """Return microseconds of `NUM_STEPS` calls. When the pool is full, build a new scheduler."""
    clock = MonotonicClock()
    times: list[float] = []
    while len(times) < NUM_STEPS:
        scheduler = build_decoding_scheduler(scenario, EventBus(clock))
        # Exclude the pool from garbage collections during the steps, as `minivllm serve` does.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        for _ in islice(decode_steps(scheduler), NUM_STEPS - len(times)):
            started = clock.now()
            scheduler.schedule(now=0.0)
            times.append((clock.now() - started) * 1e6)
    return times


def growth(medians: dict[CoreScenario, float], dimension: str, sizes: tuple[int, int]) -> float:
    """Return the median growth of the time over all rows that differ only in `dimension`."""
    return statistics.median(
        medians[replace(row, **{dimension: sizes[1]})] / median
        for row, median in medians.items()
        if getattr(row, dimension) == sizes[0]
    )


def measure(args: argparse.Namespace) -> Report:
    medians: dict[CoreScenario, float] = {}
    results = []
    for scenario in tracked(SCENARIOS, "planning steps"):
        median, p99, most = np.percentile(time_steps(scenario), (50, 99, 100)).tolist()
        medians[scenario] = median
        numbers = {"median_us": median, "p99_us": p99, "max_us": most}
        results.append(asdict(scenario) | numbers)
    rows = [[f"{number:,.0f}" for number in result.values()] for result in results]
    at_256, at_1024 = (
        max(median for row, median in medians.items() if row.num_running == number)
        for number in (256, 1024)
    )
    pool_growth = growth(medians, "num_blocks", POOLS)
    context_growth = growth(medians, "context_len", CONTEXTS)
    notes = [
        f"Slowest median: {at_256 / 1000:.3f} ms at 256 running sequences, {at_1024 / 1000:.3f} ms"
        " at 1,024.",
        f"A pool 16 times as large costs {pool_growth:.2f} times as much, a context 40 times as"
        f" long {context_growth:.2f} times.",
    ]
    title = "Scheduler.schedule(), all sequences decoding, microseconds"
    columns = ("running", "pool", "context", "median", "p99", "max")
    return Report(title, columns, rows, notes, {"results": results})
