"""Stage `engine`: nano-vllm's workload on our engine with and without CUDA graphs, and three peers.

A row is one round of one engine. Each engine needs the device's whole memory, so an engine is freed
before another engine runs. The peers take turns, so that each peer has a round even if the stage
runs out of time. `minivllm.lab.bench.throughput.nano_vllm` describes the workload.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from stage_file import StageFile

from minivllm.clock import MonotonicClock
from minivllm.lab.bench.throughput.dummy_peers import ContinuousBatches, load_dummy_transformers
from minivllm.lab.bench.throughput.engine_speed import EngineSpeed, time_round, warm_up
from minivllm.lab.bench.throughput.nano_vllm import (
    STATIC_BATCH_SIZE,
    NanoVllmSettings,
    free_device_memory,
    make_our_engine,
    one_line,
)
from minivllm.lab.bench.throughput.peers import BenchEngine, StaticBatches
from minivllm.lab.bench.throughput.workloads import (
    NANO_VLLM,
    BenchRequest,
    WorkloadSpec,
    make_requests,
)
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.store.model_store import resolve_model
from minivllm.runtime.store.toys import QWEN3_DUMMY

ROUNDS = 5
PEER_SECONDS = 20.0
"""After this many seconds of a round, a peer with static batches gets no new batch."""
CONTINUOUS_LIMIT_S = 150.0
"""Time limit of a round with continuous batching, which gets all requests at once."""
OURS = {False: "minivllm, CUDA graphs", True: "minivllm, enforce_eager"}
REAL = NanoVllmSettings(
    spec=NANO_VLLM, model=QWEN3_DUMMY, dtype="bfloat16", device="cuda", attention_backend="auto",
    seed=0, num_rounds=ROUNDS, num_threads=2, peer_seconds=PEER_SECONDS,
)  # fmt: skip
DRY_RUN = replace(
    REAL,
    spec=WorkloadSpec("nano-vllm, dry run", num_requests=3, prompt_len=(4, 20), output_len=(2, 8)),
    model="tiny-random", dtype="float32", device="cpu", attention_backend="torch",
    num_rounds=1, num_threads=1,
)  # fmt: skip


@dataclass(frozen=True)
class Peer:
    """A way to run `transformers`. batch_size: requests at a time; None means all at once"""

    name: str
    batch_size: int | None


PEERS = (
    Peer(ContinuousBatches.name, None),
    Peer(f"transformers, static batches of {STATIC_BATCH_SIZE}", STATIC_BATCH_SIZE),
    Peer("transformers, one at a time", 1),
)


def run(report: StageFile, *, dry_run: bool) -> None:
    """Add a row for each round. If a peer fails, its row has a `reason`; our errors are raised."""
    settings = DRY_RUN if dry_run else REAL
    directory = resolve_model(settings.model, weights=False)
    vocab_size = read_model_config(directory).vocab_size
    numbers = range(settings.num_rounds + 1)
    rounds = [make_requests(settings.spec, settings.seed, number, vocab_size) for number in numbers]
    _run_ours(report, settings, rounds, enforce_eager=False)
    _run_peers(report, settings, rounds[:2])
    _run_ours(
        report, settings, rounds[:2], enforce_eager=True
    )  # one round: it takes four times as long
    _run_peers(report, settings, rounds)


def _run_ours(
    report: StageFile,
    settings: NanoVllmSettings,
    rounds: list[list[BenchRequest]],
    enforce_eager: bool,
) -> None:
    name, engine = OURS[enforce_eager], None
    for number in range(1, len(rounds)):
        if not report.wants(_key(name, number)):
            continue
        if engine is None:
            engine = make_our_engine(settings, enforce_eager=enforce_eager)
            warm_up(engine, rounds[0])
        report.add(
            _measure_round(
                name, number, engine, rounds[number], settings, None, engine.attention_backend
            )
        )
    del engine
    free_device_memory()


def _run_peers(
    report: StageFile, settings: NanoVllmSettings, rounds: list[list[BenchRequest]]
) -> None:
    model, failed = None, set()
    for number in range(1, len(rounds)):
        for peer in PEERS:
            if peer in failed or not report.wants(_key(peer.name, number)):
                continue
            if model is None:
                directory = resolve_model(settings.model, weights=False)
                model = load_dummy_transformers(
                    directory, settings.dtype, settings.device, settings.seed
                )
            try:
                with _peer_engine(peer, model, settings) as (engine, attention):
                    warm_up(engine, rounds[0][: peer.batch_size])
                    row = _measure_round(
                        peer.name,
                        number,
                        engine,
                        rounds[number],
                        settings,
                        peer.batch_size,
                        attention,
                    )
            except Exception as error:  # another project's code may raise anything
                failed.add(peer)
                row = {
                    "key": _key(peer.name, number),
                    "engine": peer.name,
                    "reason": one_line(error),
                }
            report.add(row)
            free_device_memory()


@contextmanager
def _peer_engine(
    peer: Peer, model: Any, settings: NanoVllmSettings
) -> Iterator[tuple[BenchEngine, str]]:
    if peer.batch_size is not None:
        yield StaticBatches(model, peer.name, peer.batch_size), "sdpa"
        return
    with closing(ContinuousBatches(model, settings.spec, CONTINUOUS_LIMIT_S)) as engine:
        yield engine, engine.attention


def _measure_round(
    name: str,
    number: int,
    engine: BenchEngine,
    requests: list[BenchRequest],
    settings: NanoVllmSettings,
    batch_size: int | None,
    attention: str,
) -> dict[str, Any]:
    speed = EngineSpeed(name)
    limit_s = None if batch_size is None else settings.peer_seconds
    time_round(speed, engine, requests, MonotonicClock(), batch_size=batch_size, limit_s=limit_s)
    return {
        "key": _key(name, number),
        "engine": name,
        "round": number,
        "runs": speed.runs,
        "requests": speed.requests[0],
        "output_tokens": speed.output_tokens[0],
        "tokens_per_s": speed.tokens_per_s,
        "extrapolated": speed.extrapolated,
        "attention": attention,
    }


def _key(name: str, number: int) -> str:
    return f"{name}/round {number}"
