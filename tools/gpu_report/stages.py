"""The stages of the GPU report. Each yields rows; a row with `failed` says what did not work.

    tests         the tests marked `gpu`
    engine        nano-vllm's workload on our engine and on `transformers` in three ways
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
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from machine import ROOT

Row = dict[str, Any]

ROUNDS = 3
PEER_REQUESTS = {"transformers, one at a time": 4, "transformers, static batches of 32": 64}
"""How many of the 256 requests a peer gets, so that it ends in a minute; lengths are random."""
CONTINUOUS_REQUESTS = 64
CONTINUOUS_LIMIT_S = 150.0
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
    """Our engine, then the peers: one at a time, static batches, continuous batching.

    The ratio of a peer is our speed on the same requests divided by its speed; for a peer whose
    batches do not depend on the number of requests, ours is the speed on all of them.
    """
    from minivllm.lab.bench.throughput.dummy_peers import ContinuousBatches, load_dummy_transformers
    from minivllm.lab.bench.throughput.nano_vllm import STATIC_BATCH_SIZE, free_device_memory

    from minivllm.lab.bench.throughput.peers import StaticBatches
    from minivllm.runtime.store.model_store import resolve_model

    settings, rounds = _workload(args)
    few = [requests[:CONTINUOUS_REQUESTS] for requests in rounds[:2]]
    ours = _our_speeds(settings, {"all requests": rounds, "few requests": few}, eager=False)
    yield from ours
    free_device_memory()
    directory = resolve_model(settings.model, weights=False)
    model = load_dummy_transformers(directory, settings.dtype, settings.device, settings.seed)
    for (name, number), size in zip(PEER_REQUESTS.items(), (1, STATIC_BATCH_SIZE), strict=True):
        peer = StaticBatches(model, name, size)
        requests = [requests[:number] for requests in rounds[:2]]
        yield _speed(name, peer, requests, "sdpa", batch_size=size, ours=ours[0])
        free_device_memory()
    spec = replace(settings.spec, num_requests=len(few[0]))
    try:
        with closing(ContinuousBatches(model, spec, CONTINUOUS_LIMIT_S)) as peer:
            yield _speed(peer.name, peer, few, peer.attention, ours=ours[1])
    except Exception as error:  # another project's code may raise anything
        yield {"engine": ContinuousBatches.name, "failed": f"{type(error).__name__}: {error}"}


def eager(args: Namespace) -> Iterator[Row]:
    settings, rounds = _workload(args)
    yield from _our_speeds(settings, {"all requests": rounds[:2]}, eager=True)


def _workload(args: Namespace) -> tuple[Any, list[list[Any]]]:
    """The bench's settings, and the requests of each round; the first round is a warm-up."""
    from minivllm.lab.bench.throughput.nano_vllm import NanoVllmSettings

    from minivllm.lab.bench.throughput.workloads import NANO_VLLM, WorkloadSpec, make_requests
    from minivllm.runtime.checkpoint.checkpoint import read_model_config
    from minivllm.runtime.store.model_store import resolve_model
    from minivllm.runtime.store.toys import QWEN3_DUMMY

    settings = NanoVllmSettings(
        spec=NANO_VLLM, model=QWEN3_DUMMY, dtype="bfloat16", device="cuda",
        attention_backend="auto", seed=0, num_rounds=ROUNDS, num_threads=2, peer_seconds=0,
    )  # fmt: skip
    if args.dry_run:
        spec = WorkloadSpec("dry run", num_requests=3, prompt_len=(4, 20), output_len=(2, 8))
        settings = replace(
            settings, spec=spec, model="tiny-random", dtype="float32", device="cpu",
            attention_backend="torch", num_rounds=1,
        )  # fmt: skip
    vocab_size = read_model_config(resolve_model(settings.model, weights=False)).vocab_size
    numbers = range(settings.num_rounds + 1)
    return settings, [make_requests(settings.spec, 0, number, vocab_size) for number in numbers]


def _our_speeds(settings: Any, rounds: dict[str, list[list[Any]]], *, eager: bool) -> list[Row]:
    from minivllm.lab.bench.throughput.nano_vllm import make_our_engine

    engine = make_our_engine(settings, enforce_eager=eager)
    name = "minivllm, enforce_eager" if eager else "minivllm, CUDA graphs"
    return [
        _speed(f"{name}, {which}", engine, requests, engine.attention_backend)
        for which, requests in rounds.items()
    ]


def _speed(
    name: str, engine: Any, rounds: list[list[Any]], attention: str, *,
    batch_size: int | None = None, ours: Row | None = None,
) -> Row:  # fmt: skip
    from minivllm.lab.bench.throughput.engine_speed import EngineSpeed, time_engine

    from minivllm.clock import MonotonicClock

    speed = EngineSpeed(name, attention=attention)
    time_engine(speed, engine, rounds, MonotonicClock(), batch_size=batch_size)
    row = {
        "engine": name, "attention": attention, "tokens_per_s": speed.tokens_per_s,
        "requests": len(rounds[-1]), "runs": speed.runs, "output_tokens": speed.output_tokens,
    }  # fmt: skip
    return row | ({"ratio": ours["tokens_per_s"] / row["tokens_per_s"]} if ours else {})


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
    from profile_step import profiled_steps

    return profiled_steps(args.out, dry_run=args.dry_run)


def demo(args: Namespace) -> Iterator[Row]:
    """Play a scenario. As key `X` does in the dashboard, trace the first decode of a sequence."""
    from minivllm.config import EngineConfig
    from minivllm.engine.engine import LLMEngine
    from minivllm.events import types as ev
    from minivllm.events.recording.log import LogWriter
    from minivllm.lessons.scenarios.player import ScenarioPlayer
    from minivllm.lessons.scenarios.scenarios import SCENARIOS

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
            sampled = next((one for one in events if isinstance(one, ev.TokenSampled)), None)
            watch = traced is None and sampled is not None
            if watch:
                traced = sampled.seq_id
                engine.trace_kernel(traced)
                engine.record_attention_mass(True)
            engine.step()
            if watch:
                engine.record_attention_mass(False)
            player.before_step()
    (trace,) = (one for one in events if isinstance(one, ev.KernelTraced))
    row = {"recording": path.name, "model": model, "events": len(events), "traced": traced}
    yield row | ({"failed": trace.problem} if trace.problem else {})


STAGES: dict[str, Callable[[Namespace], Iterator[Row]]] = {
    stage.__name__: stage for stage in (tests, engine, eager, speculation, profile, demo, kernels)
}
"""By name, in the order in which they run: what a page needs most comes first."""
