"""The stages of the GPU report. Each yields rows; a row with `failed` says what did not work.

    tests         the tests marked `gpu`
    engine        nano-vllm's workload on our engine
    one_by_one    a few of its requests on `transformers` and on our engine, one at a time
    static_32     the same in one static batch of 32
    continuous    the same 32 on `transformers` alone, with its continuous batching
    eager         the whole workload on our engine without CUDA graphs
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
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from continuous import ContinuousPeer
from profile_step import profiled_steps

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.events.recording.log import LogWriter
from minivllm.lab.bench.throughput.rounds import measure_rounds
from minivllm.lab.bench.throughput.workloads import NANO_VLLM, WORKLOADS, make_requests, quick
from minivllm.lab.common.report import progress_bar
from minivllm.lessons.scenarios.player import ScenarioPlayer
from minivllm.lessons.scenarios.scenarios import SCENARIOS
from minivllm.runtime.store.model_store import QWEN3_DUMMY, resolve_model

Row = dict[str, Any]

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
        yield _pytest(args, "--collect-only", *TOGETHER, ALONE)
        return
    workers = ("-n", str(WORKERS)) if find_spec("xdist") else ()
    yield _pytest(args, ALONE)
    yield _pytest(args, *workers, *TOGETHER)


def _pytest(args: Namespace, *arguments: str) -> Row:
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-v", "-rfE", "--tb=short"]
    command += ["--continue-on-collection-errors", *arguments]
    # As on a device, where each test of a kernel is marked: none is interpreted.
    compiled = os.environ | ({"TRITON_INTERPRET": "0"} if args.dry_run else {})
    with (args.out / "tests.log").open("a+") as log:
        begin = log.seek(0, os.SEEK_END)
        status = subprocess.run(command, env=compiled, stdout=log, stderr=log).returncode
        log.seek(begin)
        lines = log.read().splitlines()
    result = next((line for line in lines[::-1] if re.search(r" in \d+\.\d+s", line)), "none")
    bad = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    row = {"tests": " ".join(arguments), "result": result.strip("= "), "bad": bad}
    return row if status == 0 else row | {"failed": f"exit status {status}"}


def engine(args: Namespace) -> Iterator[Row]:
    yield _bench(args, "throughput", *_nano_vllm(args), "--rounds", "3")


def one_by_one(args: Namespace) -> Iterator[Row]:
    yield _peer(args, "2", "1")


def static_32(args: Namespace) -> Iterator[Row]:
    yield _peer(args, "32", "32")


def _peer(args: Namespace, requests: str, size: str) -> Row:
    """So few of the 256 requests that `transformers` ends in about a minute: its speed counts."""
    of_size = ("--num-requests", requests, "--peer-batch-size", size, "--vs", "transformers")
    return _bench(args, "throughput", *of_size, *_nano_vllm(args))  # the last number counts


def continuous(args: Namespace) -> Iterator[Row]:
    spec = replace(WORKLOADS[NANO_VLLM], num_requests=3 if args.dry_run else 32)
    model = (resolve_model(QWEN3_DUMMY, weights=False), "bfloat16", "cuda")
    if args.dry_run:
        spec, model = quick(spec), (resolve_model("tiny-random"), "float32", "cpu")
    requests = [make_requests(spec, 0, number, vocab_size=100) for number in range(2)]
    with ContinuousPeer(*model, batch_size=1) as peer, progress_bar() as progress:
        (measured,) = measure_rounds([peer], requests, progress, spec.name)
    yield {**measured.figures, "requests": spec.num_requests}


def eager(args: Namespace) -> Iterator[Row]:
    yield _bench(args, "throughput", *_nano_vllm(args), "--enforce-eager")


def _nano_vllm(args: Namespace) -> tuple[str, ...]:
    if not args.dry_run:
        return ("--workload", "nano-vllm")
    small = "--quick --num-requests 3 --model tiny-random --dtype float32 --num-threads 1"
    return ("--workload", "nano-vllm", *small.split())


def speculation(args: Namespace) -> Iterator[Row]:
    options = ["--model", args.model]  # float32: both sides must write the same tokens
    if args.dry_run:
        options = ["--model", "tiny-random", "--rounds", "1", "--output-len", "4"]
        options += ["--num-threads", "1"]
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


STAGES: dict[str, tuple[Callable[[Namespace], Iterator[Row]], int]] = {
    stage.__name__: (stage, limit)
    for stage, limit in (
        (tests, 200), (engine, 90), (one_by_one, 90), (static_32, 80), (continuous, 100),
        (eager, 60), (speculation, 60), (profile, 50), (demo, 30), (kernels, 80),
    )
}  # fmt: skip
"""Each with its limit in seconds: 14 minutes together. What a page needs most comes first."""
