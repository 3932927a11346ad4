"""`minivllm bench events`: the cost of recording a step, and of opening and seeking a recording.

Decode steps of a real model are measured in pairs, of which one step is recorded. Both have the
same batch and nearly the same context, so the median ratio of many pairs is the slowdown. The order
within a pair is random; otherwise the steps in which sequences start a new block could all be
recorded ones. Opening and seeking use `traffic.py`, without a model.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.events.recording.keyframes import Keyframes
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.events.state import EngineState
from minivllm.lab.bench.step.points import RandomRequests
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS
from minivllm.lab.common.environment import peak_rss_bytes
from minivllm.lab.common.report import Report, add_model_arguments, add_number, progress_bar
from minivllm.lab.common.traffic import record_traffic

NUM_EVENTS = 1_000_000
NUM_BLOCKS = 2000
NUM_SEEKS = 1000
NUM_PAIRS = 200
# All 16 prompts fit into one step.
_PROMPT_LEN, _OUTPUT_LEN, _WARM_UP_STEPS = 16, 128, 4


def time_step_pairs(engine: LLMEngine, log_path: Path) -> list[tuple[float, float]]:
    """Decode `MAX_NUM_SEQS` sequences repeatedly; return pairs of seconds: plain and recorded."""
    clock, order, requests = MonotonicClock(), Random(0), RandomRequests(engine, seed=0)
    pairs: list[tuple[float, float]] = []

    def seconds(is_recorded: bool) -> float:
        unsubscribe = engine.subscribe(writer.write) if is_recorded else lambda: None
        started = clock.now()
        engine.step()
        ended = clock.now()
        unsubscribe()
        return ended - started

    with LogWriter(log_path, engine.log_header()) as writer:
        while len(pairs) < NUM_PAIRS:
            for _ in range(MAX_NUM_SEQS):
                requests.add(_PROMPT_LEN, _OUTPUT_LEN)
            for _ in range(_WARM_UP_STEPS):
                engine.step()
            # Leave out the last step, in which all sequences finish.
            for _ in range((_OUTPUT_LEN - _WARM_UP_STEPS - 1) // 2):
                first = order.random() < 0.5
                pair = {is_recorded: seconds(is_recorded) for is_recorded in (first, not first)}
                pairs.append((pair[False], pair[True]))
            while engine.has_unfinished_requests():
                engine.step()
    return pairs[:NUM_PAIRS]


def time_reading(path: Path, final_state: EngineState) -> dict[str, Any]:
    """Open a recording, index it and seek to random steps: times and bytes.

    Raises `BenchError` if a restored state is wrong.
    """
    clock = MonotonicClock()
    keyframes = Keyframes()
    memory, started = peak_rss_bytes(), clock.now()
    recording = Recording(path, index=False, keyframes=keyframes)
    opened = clock.now()
    recording.index_more(float("inf"))
    indexed, memory = clock.now(), peak_rss_bytes() - memory
    last = recording.view_at_step(recording.last_step)
    if last.state != final_state:
        raise BenchError("The recording does not lead to the state of the engine that wrote it.")
    steps = Random(0)
    seeks = []
    for _ in range(NUM_SEEKS):
        step = steps.randint(recording.first_step, recording.last_step)
        began = clock.now()
        view = recording.view_at_step(step)
        seeks.append((clock.now() - began) * 1000)
        if view.step != step:
            raise BenchError(f"A seek to step {step} ended at step {view.step}.")
    return {
        "events": len(recording),
        "recording_bytes": path.stat().st_size,
        "open_seconds": opened - started,
        "index_seconds": indexed - opened,
        "indexed_events_per_second": len(recording) / (indexed - opened),
        # By how much the process's peak memory grew.
        "index_memory_bytes": memory,
        "keyframe_bytes": keyframes.num_bytes,
        "seeks": NUM_SEEKS,
        "seek_ms": {
            "median": statistics.median(seeks),
            "p99": float(np.percentile(seeks, 99)),
            "max": max(seeks),
        },
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_num_events(parser)


def add_num_events(parser: argparse.ArgumentParser) -> None:
    add_number(parser, "--num-events", NUM_EVENTS, "number of events in the recording to seek in")


def measure(args: argparse.Namespace) -> Report:
    with tempfile.TemporaryDirectory() as folder, progress_bar() as progress:
        progress.add_task("seeking and recording", total=None)
        progress.refresh()
        log = Path(folder, "traffic.jsonl")
        reading = time_reading(log, record_traffic(log, args.num_events, NUM_BLOCKS, seed=0))
        config = EngineConfig(model=args.model, dtype=args.dtype, max_num_seqs=MAX_NUM_SEQS)
        pairs = time_step_pairs(LLMEngine.from_config(config), Path(folder, "steps.jsonl"))
    plain, recorded = (statistics.median(times) * 1000 for times in zip(*pairs, strict=True))
    # A value under 0 is noise.
    slowdown = statistics.median(recorded / plain for plain, recorded in pairs) - 1
    result = {
        "slowdown": slowdown,
        "pairs": NUM_PAIRS,
        "step_ms": plain,
        "recorded_step_ms": recorded,
        "blocks": NUM_BLOCKS,
        **reading,
    }
    rows = [
        ("step, no subscribers", f"{plain:.2f} ms"),
        ("step, recorded", f"{recorded:.2f} ms"),
        (f"slowdown (median of {NUM_PAIRS} pairs)", f"{slowdown:+.2%}"),
        (
            f"open {reading['events']:,} events, {reading['recording_bytes'] / 1e6:.0f} MB",
            f"{reading['open_seconds'] * 1000:.2f} ms",
        ),
        ("index them", f"{reading['index_seconds']:.2f} s"),
        ("memory of the index", f"{reading['index_memory_bytes'] / 1e6:.0f} MB"),
        ("memory of its keyframes", f"{reading['keyframe_bytes'] / 1e6:.0f} MB"),
        *(
            (f"seek, {name} of {NUM_SEEKS:,}", f"{milliseconds:.2f} ms")
            for name, milliseconds in reading["seek_ms"].items()
        ),
    ]
    title = (
        f"Recording {args.model} in {args.dtype}, {MAX_NUM_SEQS} sequences decoding,"
        f" {args.num_threads} threads"
    )
    return Report(title, ("", "measured"), rows, [], result)
