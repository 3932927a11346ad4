"""`minivllm bench events`: the cost of recording a step, and of opening and seeking a recording.

Decode steps of a real model are measured in pairs, of which one step is recorded. Both have the
same batch and nearly the same context, so the median ratio of many pairs is the slowdown. The order
within a pair is random (`in_turns`). Opening and seeking need no model (`record_traffic`).
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from minivllm.clock import MonotonicClock, VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.events.recording.keyframes import Keyframes
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.events.state import EngineState
from minivllm.lab.bench.step.points import RandomRequests, in_turns, timed_step
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS
from minivllm.lab.common import report
from minivllm.lessons.scenarios.scripted import ScriptedRunner, ScriptedTokenizer
from minivllm.sampling_params import RequestOutputKind, SamplingParams

VOCAB_SIZE = 50_000
MAX_UNFINISHED = 96  # number of unfinished requests at a time; at most `MAX_RUNNING` of them run
MAX_RUNNING = 64
NUM_EVENTS = 1_000_000
NUM_BLOCKS = 2000
NUM_SEEKS = 1000
NUM_PAIRS = 200
# All 16 prompts fit into one step.
_PROMPT_LEN, _OUTPUT_LEN, _WARM_UP_STEPS = 16, 128, 4


def time_step_pairs(engine: LLMEngine, log_path: Path) -> list[tuple[float, float]]:
    """Decode `MAX_NUM_SEQS` sequences repeatedly; return pairs of seconds: plain and recorded."""
    clock, requests = MonotonicClock(), RandomRequests(engine, seed=0)
    pairs: list[tuple[float, float]] = []

    def plain() -> float:
        return timed_step(engine, clock.now).seconds

    def recorded() -> float:
        unsubscribe = engine.subscribe(writer.write)
        seconds = plain()
        unsubscribe()
        return seconds

    with LogWriter(log_path, engine.log_header()) as writer:
        while len(pairs) < NUM_PAIRS:
            for _ in range(MAX_NUM_SEQS):
                requests.add(_PROMPT_LEN, _OUTPUT_LEN)
            for _ in range(_WARM_UP_STEPS):
                engine.step()
            # Leave out the last step, in which all sequences finish.
            pairs += in_turns((_OUTPUT_LEN - _WARM_UP_STEPS - 1) // 2, plain, recorded)
            while engine.has_unfinished_requests():
                engine.step()
    return pairs[:NUM_PAIRS]


def record_traffic(path: Path, num_events: int, num_blocks: int, seed: int) -> EngineState:
    """Record `num_events` events without a model; return the engine's last state.

    Tokens and text are random; lengths are realistic. There are shared prefixes, cache hits,
    evictions, preemptions and hundreds of block tables: seeking is slow only under memory pressure.
    """
    rng = Random(f"traffic/{seed}")
    config = EngineConfig(model="none", max_num_seqs=MAX_RUNNING, max_num_batched_tokens=2048)
    tokens = Random(seed)
    runner = ScriptedRunner(num_blocks, 4096, lambda sequence: tokens.randrange(VOCAB_SIZE))
    tokenizer = ScriptedTokenizer(lambda token_id: f" w{token_id}", VOCAB_SIZE)
    engine = LLMEngine(config, runner, tokenizer, clock=VirtualClock())
    # A few system prompts, each shared by many users.
    draw = partial(rng.choices, range(VOCAB_SIZE))
    system_prompts = [draw(k=rng.randint(100, 400)) for _ in range(8)]
    num_arrived = 0
    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        while engine.core.bus.next_seq < num_events:
            while len(engine.core.scheduler.requests) < MAX_UNFINISHED:
                prompt = rng.choice(system_prompts) + draw(k=rng.randint(16, 400))
                # Nothing reads the outputs, so each output is built only when its request ends.
                last = RequestOutputKind.FINAL_ONLY
                params = SamplingParams(max_tokens=rng.randint(64, 640), output_kind=last)
                engine.add_request(str(num_arrived), {"prompt_token_ids": prompt}, params)
                num_arrived += 1
            engine.step()
    return engine.inspect()


def time_reading(path: Path, final_state: EngineState) -> dict[str, Any]:
    """Open a recording, index it and seek to random steps: times and bytes.

    Raises `BenchError` if a restored state is wrong.
    """
    clock, keyframes = MonotonicClock(), Keyframes()
    memory, started = report.peak_rss_bytes(), clock.now()
    recording = Recording(path, index=False, keyframes=keyframes)
    opened = clock.now()
    recording.index_more(float("inf"))
    indexed, memory = clock.now(), report.peak_rss_bytes() - memory
    last = recording.view_at_step(recording.last_step)
    if last.state != final_state:
        raise BenchError("The recording does not lead to the state of the engine that wrote it.")
    steps, seeks = range(recording.first_step, recording.last_step + 1), []
    for step in Random(0).choices(steps, k=NUM_SEEKS):
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
        # By how much the process's peak memory grew.
        "index_memory_bytes": memory,
        "keyframe_bytes": keyframes.num_bytes,
        "seek_ms": dict(
            zip(("median", "p99", "max"), np.percentile(seeks, (50, 99, 100)).tolist(), strict=True)
        ),
    }


def add_arguments(add: Callable[..., None]) -> None:
    report.add_model_arguments(add)
    add_num_events(add)


def add_num_events(add: Callable[..., None]) -> None:
    size = "number of events in the recording to seek in"
    add("--num-events N", size, type=report.positive_int, default=NUM_EVENTS)


def measure(args: argparse.Namespace) -> report.Report:
    with tempfile.TemporaryDirectory() as folder, report.progress_bar() as progress:
        progress.add_task("seeking and recording", total=None)
        progress.refresh()
        log = Path(folder, "traffic.jsonl")
        reading = time_reading(log, record_traffic(log, args.num_events, NUM_BLOCKS, seed=0))
        config = EngineConfig(model=args.model, dtype=args.dtype, max_num_seqs=MAX_NUM_SEQS)
        pairs = time_step_pairs(LLMEngine.from_config(config), Path(folder, "steps.jsonl"))
    plain, recorded = (statistics.median(times) * 1000 for times in zip(*pairs, strict=True))
    # A value under 0 is noise.
    slowdown = statistics.median(recorded / plain for plain, recorded in pairs) - 1
    result = {"slowdown": slowdown, "step_ms": plain, "recorded_step_ms": recorded, **reading}
    size = f"{reading['events']:,} events, {reading['recording_bytes'] / 1e6:.0f} MB"
    rows = [
        ("step, no subscribers", f"{plain:.2f} ms"),
        ("step, recorded", f"{recorded:.2f} ms"),
        (f"slowdown (median of {NUM_PAIRS} pairs)", f"{slowdown:+.2%}"),
        (f"open {size}", f"{reading['open_seconds'] * 1000:.2f} ms"),
        ("index them", f"{reading['index_seconds']:.2f} s"),
        ("memory of the index", f"{reading['index_memory_bytes'] / 1e6:.0f} MB"),
        ("memory of its keyframes", f"{reading['keyframe_bytes'] / 1e6:.0f} MB"),
        *(
            (f"seek, {name} of {NUM_SEEKS:,}", f"{milliseconds:.2f} ms")
            for name, milliseconds in reading["seek_ms"].items()
        ),
    ]
    how = f"{MAX_NUM_SEQS} sequences decoding, {args.num_threads} threads"
    title = f"Recording {args.model} in {args.dtype}, {how}"
    return report.Report(title, ("", "measured"), rows, [], result)
