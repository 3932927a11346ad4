"""`minivllm bench events`: the cost of recording a step, and of opening and seeking a recording.

Decode steps of a real model are measured in pairs, of which one step is recorded. Both have the
same batch and nearly the same context, so the median ratio of many pairs is the slowdown. The order
within a pair is random. In a fixed order, all steps in which sequences start a new block could be
recorded ones.

Opening and seeking use `traffic.py`, without a model.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from minivllm.clock import Clock, MonotonicClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.events.fold import Fold
from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import Keyframes, V, ViewCodec
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, WorkloadSpec, make_requests
from minivllm.lab.common.environment import describe_environment, peak_rss_bytes, set_num_threads
from minivllm.lab.common.report import (
    add_json_argument,
    add_model_arguments,
    positive_int,
    print_report,
    progress_bar,
)
from minivllm.lab.common.statistics import nearest_rank
from minivllm.lab.common.traffic import RecordedTraffic, record_traffic
from minivllm.sampling_params import SamplingParams

NUM_EVENTS = 1_000_000
NUM_BLOCKS = 2000
NUM_SEEKS = 1000
NUM_PAIRS = 200

# All 16 prompts fit into one step. After the warm-up steps, about 62 pairs of decodes follow.
_STEPS = WorkloadSpec(
    "events", num_requests=MAX_NUM_SEQS, prompt_len=(16, 16), output_len=(128, 128)
)
_WARM_UP_STEPS = 4


@dataclass(frozen=True, slots=True)
class StepPair:
    """Seconds of two neighbouring steps with the same batch."""

    plain: float
    recorded: float


@dataclass(frozen=True, slots=True)
class SeekTimes:
    num_events: int
    num_bytes: int
    open_seconds: float
    """Seconds until the header is read and a dashboard could be drawn."""
    index_seconds: float
    """Seconds from opening until every step of the recording can be shown."""
    index_memory_bytes: int
    """By how much the process's peak memory grew while opening and indexing."""
    keyframe_bytes: int
    """In bytes."""
    seek_seconds: list[float]


def time_step_pairs(
    engine: LLMEngine, vocab_size: int, num_pairs: int, log_path: Path
) -> list[StepPair]:
    """Decode `MAX_NUM_SEQS` sequences repeatedly until `num_pairs` pairs of steps are timed."""
    clock = MonotonicClock()
    order = Random(0)
    pairs: list[StepPair] = []
    round_number = 0
    with LogWriter(log_path, engine.log_header()) as writer:
        while len(pairs) < num_pairs:
            requests = make_requests(_STEPS, 0, round_number, vocab_size)
            for number, request in enumerate(requests):
                params = SamplingParams(
                    temperature=0, max_tokens=request.max_tokens, ignore_eos=True
                )
                prompt = {"prompt_token_ids": request.prompt_token_ids}
                engine.add_request(f"{round_number}-{number}", prompt, params)
            for _ in range(_WARM_UP_STEPS):
                engine.step()
            # Leave out the last step, in which all sequences finish.
            for _ in range((_STEPS.output_len[0] - _WARM_UP_STEPS - 1) // 2):
                recorded_first = order.random() < 0.5
                first = _time_step(engine, writer if recorded_first else None, clock)
                second = _time_step(engine, None if recorded_first else writer, clock)
                pairs.append(StepPair(second, first) if recorded_first else StepPair(first, second))
            while engine.has_unfinished_requests():
                engine.step()
            round_number += 1
    return pairs[:num_pairs]


def _time_step(engine: LLMEngine, writer: LogWriter | None, clock: Clock) -> float:
    unsubscribe = engine.subscribe(writer.write) if writer else None
    started = clock.now()
    engine.step()
    seconds = clock.now() - started
    if unsubscribe:
        unsubscribe()
    return seconds


def slowdown(pairs: list[StepPair]) -> float:
    """Return how much longer recording makes a step: 0.01 is 1 %. A value under 0 is noise."""
    return statistics.median(pair.recorded / pair.plain for pair in pairs) - 1


def time_seeks(path: Path, num_events: int, num_blocks: int, num_seeks: int) -> SeekTimes:
    """Make a recording, open it and seek. Raises `BenchError` if a restored state is wrong."""
    return time_reading(
        path,
        record_traffic(path, num_events, num_blocks, seed=0),
        num_seeks,
        FOLD,
        lambda fold: fold,
    )


def time_reading(
    path: Path,
    traffic: RecordedTraffic,
    num_seeks: int,
    codec: ViewCodec[V],
    fold_of: Callable[[V], Fold],
) -> SeekTimes:
    """Open a recording of `traffic`, index it and seek to random steps.

    fold_of: returns the engine's state in a view
    """
    clock = MonotonicClock()
    keyframes = Keyframes()
    memory, started = peak_rss_bytes(), clock.now()
    recording = Recording(path, codec, index=False, keyframes=keyframes)
    open_seconds = clock.now() - started
    recording.index_more(float("inf"))
    index_seconds, memory = clock.now() - started - open_seconds, peak_rss_bytes() - memory
    last = fold_of(recording.view_at_step(recording.last_step))
    if len(recording) != traffic.num_events or last.state != traffic.final_state:
        raise BenchError("The recording does not lead to the state of the engine that wrote it.")
    steps = Random(0)
    seek_seconds = []
    for _ in range(num_seeks):
        step = steps.randint(recording.first_step, recording.last_step)
        started = clock.now()
        view = recording.view_at_step(step)
        seek_seconds.append(clock.now() - started)
        if fold_of(view).step != step:
            raise BenchError(f"A seek to step {step} ended at step {fold_of(view).step}.")
    num_bytes = path.stat().st_size
    return SeekTimes(
        len(recording),
        num_bytes,
        open_seconds,
        index_seconds,
        memory,
        keyframes.num_bytes,
        seek_seconds,
    )


def measure(
    model: str,
    dtype: str,
    num_threads: int,
    *,
    num_pairs: int = NUM_PAIRS,
    num_events: int = NUM_EVENTS,
    num_blocks: int = NUM_BLOCKS,
    num_seeks: int = NUM_SEEKS,
) -> dict[str, object]:
    """Run both measurements, and return the report for `--json`."""
    set_num_threads(num_threads)
    with tempfile.TemporaryDirectory() as folder, progress_bar() as progress:
        task = progress.add_task("seeking", total=2)
        progress.refresh()
        seeks = time_seeks(Path(folder, "traffic.jsonl"), num_events, num_blocks, num_seeks)
        progress.update(task, description="recording", advance=1, refresh=True)
        engine = LLMEngine.from_config(
            EngineConfig(model=model, dtype=dtype, max_num_seqs=MAX_NUM_SEQS)
        )
        pairs = time_step_pairs(
            engine, engine.tokenizer.vocab_size, num_pairs, Path(folder, "steps.jsonl")
        )
    return {
        "bench": "events",
        "model": model,
        "dtype": dtype,
        "threads": num_threads,
        "slowdown": slowdown(pairs),
        "pairs": num_pairs,
        "step_ms": statistics.median(pair.plain for pair in pairs) * 1000,
        "recorded_step_ms": statistics.median(pair.recorded for pair in pairs) * 1000,
        "events": seeks.num_events,
        "recording_bytes": seeks.num_bytes,
        "blocks": num_blocks,
        "open_seconds": seeks.open_seconds,
        "index_seconds": seeks.index_seconds,
        "indexed_events_per_second": seeks.num_events / seeks.index_seconds,
        "index_memory_bytes": seeks.index_memory_bytes,
        "seeks": num_seeks,
        "seek_ms": {
            "median": statistics.median(seeks.seek_seconds) * 1000,
            "p99": nearest_rank(seeks.seek_seconds, 99) * 1000,
            "max": max(seeks.seek_seconds) * 1000,
        },
        **describe_environment("msgspec", "torch"),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument(
        "--num-events",
        type=positive_int,
        default=NUM_EVENTS,
        help=f"number of events in the recording to seek in (default: {NUM_EVENTS:,})",
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    result = measure(args.model, args.dtype, args.num_threads, num_events=args.num_events)
    seek = result["seek_ms"]
    rows = [
        ("step, no subscribers", f"{result['step_ms']:.2f} ms"),
        ("step, recorded", f"{result['recorded_step_ms']:.2f} ms"),
        (f"slowdown (median of {result['pairs']} pairs)", f"{result['slowdown']:+.2%}"),
        (
            f"open {result['events']:,} events, {result['recording_bytes'] / 1e6:.0f} MB",
            f"{result['open_seconds'] * 1000:.2f} ms",
        ),
        ("index them", f"{result['index_seconds']:.2f} s"),
        ("memory of the index", f"{result['index_memory_bytes'] / 1e6:.0f} MB"),
        (f"seek, median of {result['seeks']:,}", f"{seek['median']:.2f} ms"),
        ("seek, p99", f"{seek['p99']:.2f} ms"),
        ("seek, slowest", f"{seek['max']:.2f} ms"),
    ]
    title = (
        f"Recording {args.model} in {args.dtype}, {MAX_NUM_SEQS} sequences decoding,"
        f" {args.num_threads} threads"
    )
    print_report(title, ("", "measured"), rows, [], result, args.json)
    return 0
