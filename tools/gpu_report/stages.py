"""The stages of the GPU report. Each yields rows; a row with `failed` says what did not work.

    tests         the tests marked `gpu`
    engine        nano-vllm's workload on our engine, and on `transformers` in two ways
    eager         the same on our engine without CUDA graphs
    speculation   `minivllm bench speculation`, with CUDA graphs and without
    profile       decode steps of 1, 64 and 256 sequences under torch's profiler (`profile_step`)
    demo          not a measurement: a recording of the demo, with one traced decode
    kernels       `minivllm bench kernels`

A bench writes its messages to DIR/STAGE.log, also when it is ended in the middle.
"""

import json
import os
import re
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from machine import ROOT
from profile_step import profiled_steps

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.events.recording.log import LogWriter
from minivllm.lessons.scenarios.player import ScenarioPlayer
from minivllm.lessons.scenarios.scenarios import SCENARIOS

Row = dict[str, Any]

PEERS = (("4", "1"), ("64", "32"))
"""How many of the 256 requests `transformers` gets, so that it ends in a minute, and its batches.
"""
TOGETHER = (
    "tests/test_kernels_are_the_reference.py", "tests/kernels", "tests/runtime",
    "tests/more/kernels", "tests/more/runtime",
)  # fmt: skip
ALONE = "tests/more/identity/test_gpu.py"
WORKERS = 8
"""Compiling kernels for each shape and dtype takes most of the time."""


def tests(args: Namespace) -> Iterator[Row]:
    """The log names each test as it ends. A test that measures free memory runs alone."""
    if args.dry_run:
        yield _pytest(args, "--collect-only", ALONE)
        return
    workers = ("-n", str(WORKERS)) if find_spec("xdist") else ()
    yield _pytest(args, *workers, *TOGETHER)
    yield _pytest(args, ALONE)


def _pytest(args: Namespace, *arguments: str) -> Row:
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-v", "-rfE", "--tb=short", *arguments]
    with (args.out / "tests.log").open("a+") as log:
        begin = log.seek(0, os.SEEK_END)
        status = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log).returncode
        log.seek(begin)
        lines = log.read().splitlines()
    result = next((line for line in lines[::-1] if re.search(r" in \d+\.\d+s", line)), "none")
    bad = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    row = {"tests": " ".join(arguments), "result": result.strip("= "), "bad": bad}
    return row if status == 0 else row | {"failed": f"exit status {status}"}


def engine(args: Namespace) -> Iterator[Row]:
    """Our engine alone, then with `transformers`: one at a time, and in static batches."""
    yield _bench(args, "throughput", *_nano_vllm(args), "--rounds", "3")
    for requests, size in PEERS:
        of_size = ("--num-requests", requests, "--peer-batch-size", size, "--vs", "transformers")
        yield _bench(args, "throughput", *of_size, *_nano_vllm(args))  # the last number counts


def eager(args: Namespace) -> Iterator[Row]:
    yield _bench(args, "throughput", *_nano_vllm(args), "--enforce-eager")


def _nano_vllm(args: Namespace) -> tuple[str, ...]:
    if not args.dry_run:
        return ("--workload", "nano-vllm")
    small = ("--num-requests", "3", "--model", "tiny-random", "--dtype", "float32")
    return ("--workload", "nano-vllm", "--quick", *small)


def speculation(args: Namespace) -> Iterator[Row]:
    options = ["--model", args.model]  # float32: both sides must write the same tokens
    if args.dry_run:
        options = ["--model", "tiny-random", "--rounds", "1", "--output-len", "4"]
    for graphs in ([], ["--enforce-eager"]):
        yield _bench(args, "speculation", *options, *graphs)


def kernels(args: Namespace) -> Iterator[Row]:
    yield _bench(args, "kernels", *(["--interpret", "--runs", "5"] if args.dry_run else []))


def _bench(args: Namespace, name: str, *options: str) -> Row:
    command = [sys.executable, "-m", "minivllm", "bench", name, *options, "--json"]
    with (args.out / f"{name}.log").open("a") as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True)
    row: Row = {"bench": name, "options": " ".join(options)}
    if done.returncode != 0:
        row["failed"] = f"exit status {done.returncode}: see {name}.log"
    return row | ({"result": json.loads(done.stdout)} if done.stdout else {})


def profile(args: Namespace) -> Iterator[Row]:
    return profiled_steps(args.out, dry_run=args.dry_run)


def demo(args: Namespace) -> Iterator[Row]:
    """Play a scenario. As key `X` does in the dashboard, trace the first decode of a sequence."""
    scenario, path = SCENARIOS["shared-prefix"], args.out / "recording.jsonl"
    model = "tiny-random" if args.dry_run else args.model
    engine = LLMEngine.from_config(
        EngineConfig(**scenario.options, model=model, check_invariants=True)
    )
    events: list[ev.Event] = []
    player = ScenarioPlayer(scenario, engine)
    path.unlink(missing_ok=True)
    traced = None
    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        engine.subscribe(events.append)
        player.before_step()
        while not player.over:
            sampled = next((event for event in events if isinstance(event, ev.TokenSampled)), None)
            watch = traced is None and sampled is not None
            if watch:
                traced = sampled.seq_id
                engine.trace_kernel(traced)
                engine.record_attention_mass(True)
            engine.step()
            if watch:
                engine.record_attention_mass(False)
            player.before_step()
    (trace,) = (event for event in events if isinstance(event, ev.KernelTraced))
    row = {"recording": path.name, "model": model, "events": len(events), "traced": traced}
    yield row | ({"failed": trace.problem} if trace.problem else {})


STAGES: dict[str, Callable[[Namespace], Iterator[Row]]] = {
    stage.__name__: stage for stage in (tests, engine, eager, speculation, profile, demo, kernels)
}
"""By name, in the order in which they run: what a page needs most comes first."""
