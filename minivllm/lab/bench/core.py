"""`minivllm bench core`: the cost of planning a step, without a model and without torch.

The bench times `Scheduler.schedule()` while all sequences decode. This time should depend only on
the number of sequences. To check this, each number of sequences runs with a small and a large pool,
and with short and long contexts. All contexts share a long prefix, so that long ones fit into the
small pool.

A sequence allocates and hashes a block every `BLOCK_SIZE` tokens. If all sequences did so in the
same step, the median would not show that work. So prompt lengths differ, except in the `together`
rows, which measure the worst step.
"""

import argparse
import gc
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request
from minivllm.core.scheduler import Scheduler
from minivllm.events.bus import EventBus
from minivllm.events.recording.log import LogWriter
from minivllm.events.types import LogHeader
from minivllm.lab.common.environment import describe_environment
from minivllm.lab.common.report import add_json_argument, print_report, progress_bar
from minivllm.lab.common.statistics import nearest_rank
from minivllm.sampling_params import SamplingParams

BLOCK_SIZE = 16
VOCAB_SIZE = 50_000
NUM_STEPS = 320
"""Timed steps of each scenario: enough for each sequence to fill twenty blocks."""

SMALL_POOL, LARGE_POOL = 4096, 65536
SHORT_CONTEXT, LONG_CONTEXT = 100, 4000


@dataclass(frozen=True, slots=True)
class CoreScenario:
    num_running: int
    num_blocks: int
    context_len: int
    """Tokens of each sequence when timing starts."""
    recording: bool = False
    """Whether a `LogWriter` writes every event to a file."""
    together: bool = False
    """Whether all sequences start a new block in the same step."""


@dataclass(frozen=True, slots=True)
class ScheduleTimes:
    """Microseconds per call of `Scheduler.schedule()`."""

    median_us: float
    p99_us: float
    max_us: float


SCENARIOS = [
    CoreScenario(num_running, num_blocks, context_len, recording)
    for num_running in (16, 256, 1024)
    for num_blocks in (SMALL_POOL, LARGE_POOL)
    for context_len in (SHORT_CONTEXT, LONG_CONTEXT)
    for recording in (False, True)
] + [
    CoreScenario(256, LARGE_POOL, LONG_CONTEXT, recording, together=True)
    for recording in (False, True)
]


def build_decoding_scheduler(scenario: CoreScenario, bus: EventBus) -> Scheduler:
    """Build a scheduler in which all sequences are admitted and have computed their prompts."""
    manager = KVCacheManager(
        BlockPool(scenario.num_blocks, bus), BLOCK_SIZE, enable_prefix_caching=True, bus=bus
    )
    config = EngineConfig(
        max_num_seqs=scenario.num_running,
        # all prompts fit in one step
        max_num_batched_tokens=scenario.num_running * scenario.context_len,
    )
    scheduler = Scheduler(config, manager, scenario.context_len + NUM_STEPS, bus)
    rng = Random(0)
    num_shared = (scenario.context_len - BLOCK_SIZE) // BLOCK_SIZE * BLOCK_SIZE
    shared = [rng.randrange(VOCAB_SIZE) for _ in range(num_shared)]
    for number in range(scenario.num_running):
        offset = 0 if scenario.together else number % BLOCK_SIZE
        own = [rng.randrange(VOCAB_SIZE) for _ in range(scenario.context_len - num_shared - offset)]
        params = SamplingParams(max_tokens=NUM_STEPS)
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


def time_steps(scenario: CoreScenario, num_steps: int, log_path: Path) -> ScheduleTimes:
    """Time `num_steps` calls of `schedule()`. When the pool is full, build a new scheduler."""
    clock = MonotonicClock()
    seconds: list[float] = []
    while len(seconds) < num_steps:
        bus = EventBus(clock)
        scheduler = build_decoding_scheduler(scenario, bus)
        # Exclude the pool from garbage collections during the steps, as `minivllm serve` does.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        with LogWriter(log_path, _log_header(scenario)) as writer:
            if scenario.recording:
                bus.subscribe(writer.write)
            for _ in decode_steps(scheduler):
                started = clock.now()
                scheduler.schedule(now=0.0)
                seconds.append(clock.now() - started)
                if len(seconds) == num_steps:
                    break
    return ScheduleTimes(
        statistics.median(seconds) * 1e6, nearest_rank(seconds, 99) * 1e6, max(seconds) * 1e6
    )


def growth(
    times: dict[CoreScenario, ScheduleTimes], dimension: str, small: int, large: int
) -> float:
    """Return the factor by which the time grows if `dimension` is `large` instead of `small`: the
    median over all pairs of rows that differ only in `dimension`, because rows are noisy.
    """
    pairs = (
        (row, replace(row, **{dimension: large}))
        for row in times
        if getattr(row, dimension) == small
    )
    return statistics.median(times[b].median_us / times[a].median_us for a, b in pairs)


def measure(num_steps: int = NUM_STEPS) -> dict[str, object]:
    """Time all scenarios, and return the report for `--json`."""
    times: dict[CoreScenario, ScheduleTimes] = {}
    with tempfile.TemporaryDirectory() as folder, progress_bar() as progress:
        for scenario in progress.track(SCENARIOS, description="planning steps"):
            progress.refresh()
            times[scenario] = time_steps(scenario, num_steps, Path(folder, "core.jsonl"))
    slowest_us = {
        num_running: max(
            t.median_us
            for row, t in times.items()
            if row.num_running == num_running and not row.recording
        )
        for num_running in (256, 1024)
    }
    return {
        "bench": "core",
        "block_size": BLOCK_SIZE,
        "steps": num_steps,
        "median_us_at_256": slowest_us[256],
        "median_us_at_1024": slowest_us[1024],
        "pool_growth": growth(times, "num_blocks", SMALL_POOL, LARGE_POOL),
        "context_growth": growth(times, "context_len", SHORT_CONTEXT, LONG_CONTEXT),
        "results": [
            {**asdict(scenario), **asdict(step_times)} for scenario, step_times in times.items()
        ],
        **describe_environment("msgspec"),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    result = measure()
    rows = [
        (
            str(row["num_running"]) + (" together" if row["together"] else ""),
            f"{row['num_blocks']:,}",
            f"{row['context_len']:,}",
            "yes" if row["recording"] else "no",
            *(f"{row[key]:,.0f}" for key in ("median_us", "p99_us", "max_us")),
        )
        for row in result["results"]
    ]
    print_report(
        "Scheduler.schedule(), all sequences decoding, microseconds",
        ("running", "pool", "context", "recorded", "median", "p99", "max"),
        rows,
        [
            (
                f"Slowest median, without subscribers: {result['median_us_at_256'] / 1000:.3f} ms"
                f" at 256 running sequences, {result['median_us_at_1024'] / 1000:.3f} ms at 1,024."
            ),
            (
                f"A pool 16 times as large costs {result['pool_growth']:.2f} times as much, "
                f"a context 40 times as long {result['context_growth']:.2f} times."
            ),
        ],
        result,
        args.json,
    )
    return 0


def _log_header(scenario: CoreScenario) -> LogHeader:
    return LogHeader(
        engine="bench core",
        model="none",
        clock="monotonic",
        wall=0.0,
        mono=0.0,
        num_blocks=scenario.num_blocks,
        block_size=BLOCK_SIZE,
        max_num_seqs=scenario.num_running,
        max_num_batched_tokens=scenario.num_running * scenario.context_len,
        max_model_len=scenario.context_len + NUM_STEPS,
        scheduling_policy="fcfs",
        enable_prefix_caching=True,
    )
