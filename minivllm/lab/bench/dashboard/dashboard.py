"""`minivllm bench dashboard`: what watching costs, and how quickly the dashboard responds.

    paint      time until a replay shows its first picture
    screens    processor time of each screen while every frame shows a new step
    flood      whether a flood of events is processed completely
    seek       time of a seek, including all state that the dashboard shows at that time
    attached   how much a dashboard slows the engine's steps

Only `attached` needs a model; the other parts use `traffic.py`. `paint` and `screens` run the
dashboard as a real process in a terminal (`terminal.py`).
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import asdict
from pathlib import Path
from typing import Any

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.events.recording.fold_codec import FOLD
from minivllm.lab.bench.dashboard.attached import (
    WAYS,
    StepTimer,
    median_slowdown,
    slowdowns,
    time_rounds,
)
from minivllm.lab.bench.dashboard.load import cpu_of_screens, flood
from minivllm.lab.bench.dashboard.terminal import DashboardProcess
from minivllm.lab.bench.events import time_reading
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS
from minivllm.lab.common.environment import describe_environment, set_num_threads
from minivllm.lab.common.report import (
    add_json_argument,
    add_model_arguments,
    positive_int,
    print_report,
    progress_bar,
)
from minivllm.lab.common.statistics import nearest_rank
from minivllm.lab.common.traffic import RecordedTraffic, record_traffic
from minivllm.tui.state.model import MODELS

NUM_EVENTS = 1_000_000
NUM_BLOCKS = 2048
NUM_PAINTS = 7
NUM_SEEKS = 1000
NUM_ROUNDS = 5
SECONDS_PER_SCREEN = 6.0
FLOOD_EVENTS_PER_SECOND = 20_000
FLOOD_SECONDS = 5
SECONDS_PER_RUN = 1.5
"""Approximate duration of one timed run of `attached`; it determines the number of steps."""
PARTS = ("paint", "screens", "flood", "seek", "attached")
_SHORT_EVENTS = 5000
"""Events of a short recording: the time to the first picture must not depend on the length."""


def first_paint(log: Path, num_paints: int) -> dict[str, object]:
    """Measure the seconds from the start of `minivllm replay` to its first picture, and whether the
    process has imported torch.
    """
    shows_the_run = f"{NUM_BLOCKS:,} blocks of"
    seconds = []
    for _ in range(num_paints):
        with DashboardProcess("replay", str(log)) as dashboard:
            seconds.append(dashboard.wait_for(shows_the_run))
    with DashboardProcess("replay", str(log), import_times=True) as dashboard:
        dashboard.wait_for(shows_the_run)
        imports = dashboard.imported_modules()
    if "minivllm.tui" not in imports:
        raise BenchError("The interpreter did not report what it imported.")
    return {
        "median_seconds": statistics.median(seconds),
        "max_seconds": max(seconds),
        "imports_torch": "torch" in imports,
    }


def seek_times(log: Path, traffic: RecordedTraffic, num_seeks: int) -> dict[str, object]:
    """Measure seeks with the dashboard's models; index once more with the engine's state alone."""
    fold = time_reading(log, traffic, 1, FOLD, lambda view: view)
    models = time_reading(log, traffic, num_seeks, MODELS, lambda view: view.fold)
    return {
        "seeks": num_seeks,
        "median_ms": statistics.median(models.seek_seconds) * 1000,
        "p99_ms": nearest_rank(models.seek_seconds, 99) * 1000,
        "max_ms": max(models.seek_seconds) * 1000,
        "index_seconds": models.index_seconds,
        "index_seconds_of_folds": fold.index_seconds,
        "keyframe_bytes": models.keyframe_bytes,
        "keyframe_bytes_of_folds": fold.keyframe_bytes,
    }


def attached(
    model: str, dtype: str, num_rounds: int, seconds_per_run: float, folder: Path
) -> dict[str, object]:
    engine = LLMEngine.from_config(
        EngineConfig(model=model, dtype=dtype, max_num_seqs=MAX_NUM_SEQS)
    )
    # A short first run measures the length of a step and warms up the engine.
    step = StepTimer(engine, 8, folder).seconds_per_step("nobody")
    num_steps = min(max(int(seconds_per_run / step), 8), 400)
    rounds = time_rounds(StepTimer(engine, num_steps, folder), num_rounds)
    return {
        "model": model,
        "dtype": dtype,
        "steps": num_steps,
        "rounds": num_rounds,
        "step_ms": statistics.median(times["nobody"] for times in rounds) * 1000,
        **{way: median_slowdown(rounds, way) for way in WAYS[1:]},
        "all_rounds": {way: slowdowns(rounds, way) for way in WAYS[1:]},
    }


def measure(
    model: str,
    dtype: str,
    num_threads: int,
    parts: Seq[str] = PARTS,
    *,
    num_events: int = NUM_EVENTS,
    num_paints: int = NUM_PAINTS,
    num_seeks: int = NUM_SEEKS,
    num_rounds: int = NUM_ROUNDS,
    flood_seconds: int = FLOOD_SECONDS,
    seconds_per_screen: float = SECONDS_PER_SCREEN,
    seconds_per_run: float = SECONDS_PER_RUN,
) -> dict[str, object]:
    """Measure `parts`, and return the report for `--json`."""
    result: dict[str, object] = {"bench": "dashboard", "threads": num_threads, "blocks": NUM_BLOCKS}
    with tempfile.TemporaryDirectory() as name, progress_bar() as progress:
        folder = Path(name)
        log, short = folder / "traffic.jsonl", folder / "short.jsonl"
        task = progress.add_task("recording", total=len(parts))
        progress.refresh()
        if set(parts) - {"attached"}:
            traffic = record_traffic(log, num_events, NUM_BLOCKS, seed=0)
            record_traffic(short, _SHORT_EVENTS, NUM_BLOCKS, seed=0)
            result["events"] = traffic.num_events
        for part in parts:
            progress.update(task, description=part, refresh=True)
            match part:
                case "paint":
                    result[part] = {
                        "short": first_paint(short, num_paints),
                        "long": first_paint(log, num_paints),
                    }
                case "screens":
                    result[part] = cpu_of_screens(log, folder / "growing.jsonl", seconds_per_screen)
                case "flood":
                    num_put = FLOOD_EVENTS_PER_SECOND * flood_seconds
                    result[part] = asdict(flood(log, num_put, FLOOD_EVENTS_PER_SECOND))
                case "seek":
                    result[part] = seek_times(log, traffic, num_seeks)
                case "attached":
                    set_num_threads(num_threads)
                    result[part] = attached(model, dtype, num_rounds, seconds_per_run, folder)
            progress.update(task, advance=1, refresh=True)
    return {**result, **describe_environment("msgspec", "textual", "torch")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument(
        "--part",
        dest="parts",
        action="append",
        choices=PARTS,
        help=(
            "measure only this; may be given several times (default: all, which takes some minutes)"
        ),
    )
    parser.add_argument(
        "--num-events",
        type=positive_int,
        default=NUM_EVENTS,
        help=f"number of events in the recording to show and seek in (default: {NUM_EVENTS:,})",
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    result = measure(
        args.model, args.dtype, args.num_threads, args.parts or PARTS, num_events=args.num_events
    )
    title = f"The dashboard at 120x36, {NUM_BLOCKS:,} blocks"
    print_report(title, ("", "measured", "goal"), list(_rows(result)), [], result, args.json)
    return 0


def _rows(result: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for log, paint in result.get("paint", {}).items():
        torch = ", torch imported" if paint["imports_torch"] else ""
        yield (
            f"first picture of a {log} recording",
            f"{paint['median_seconds']:.2f} s{torch}",
            "0.50 s",
        )
    for screen, share in result.get("screens", {}).items():
        yield f"{screen}, 15 steps/s, of a core", f"{share:.1%}", "10 %"
    if put := result.get("flood"):
        yield (
            f"{put['num_put']:,} events, taken in",
            f"{put['events_per_second']:,.0f}/s",
            "20,000/s",
        )
        yield "of them lost", f"{put['num_lost']:,}", "0"
        yield "of a core meanwhile", f"{put['cpu']:.1%}", ""
    if seek := result.get("seek"):
        yield f"seek in {result['events']:,} events, median", f"{seek['median_ms']:.2f} ms", "5 ms"
        yield "seek, p99", f"{seek['p99_ms']:.2f} ms", ""
        yield "seek, slowest", f"{seek['max_ms']:.2f} ms", ""
        ratio = seek["index_seconds"] / seek["index_seconds_of_folds"]
        yield "indexed in", f"{seek['index_seconds']:.2f} s, {ratio:.1f} times a fold's", ""
        yield "memory of the keyframes", f"{seek['keyframe_bytes'] / 1e6:.0f} MB", ""
    if steps := result.get("attached"):
        yield f"a step of {steps['model']}, not watched", f"{steps['step_ms']:.2f} ms", ""
        yield "watched in the same process", f"{steps['in_process']:+.1%}", "5 %"
        yield "watched from another process", f"{steps['another_process']:+.1%}", "2 %"
