"""`measure_rounds`: lets engines take turns on the same requests, and compares times and tokens.

A machine's speed changes by tens of percent within an hour, so only neighbouring turns can be
compared. OpenMP threads keep spinning after their work (Intel's: for 200 ms), so there is a pause
before each turn if an engine runs in another process.
"""

import gc
import statistics
import time
from dataclasses import dataclass, field

from rich.progress import Progress

from minivllm.clock import MonotonicClock
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.peers import BenchEngine
from minivllm.lab.bench.throughput.workloads import (
    BenchRequest,
    WorkloadSpec,
    count_output_tokens,
    make_requests,
)

WARM_UP_ROUND = 0
"""Not counted, because first runs include compilation and allocation."""
SETTLE_S = 0.3


@dataclass(frozen=True, slots=True)
class TokenMismatch:
    """The first output token of a request on which two engines disagree."""

    round: int
    request: int
    position: int
    token_id: int
    peer_token_id: int


@dataclass(slots=True)
class PeerRounds:
    """Measurements of one peer; entry i of `runs` is round i."""

    name: str
    runs: list[float] = field(default_factory=list)
    """Seconds of each round."""
    differences: list[TokenMismatch] = field(default_factory=list)


@dataclass(slots=True)
class Rounds:
    """Measurements of all engines; entry i of each list is round i."""

    runs: list[float] = field(default_factory=list)
    """Seconds of our engine in each round."""
    output_tokens: list[int] = field(default_factory=list)
    peers: list[PeerRounds] = field(default_factory=list)

    def tokens_per_s(self, runs: list[float]) -> float:
        return statistics.median(
            tokens / run for tokens, run in zip(self.output_tokens, runs, strict=True)
        )

    def ratios(self, peer: PeerRounds) -> list[float]:
        """Return for each round our engine's speed divided by the peer's speed."""
        return [theirs / ours for ours, theirs in zip(self.runs, peer.runs, strict=True)]

    def ratio(self, peer: PeerRounds) -> float:
        return statistics.median(self.ratios(peer))


def measure_rounds(
    spec: WorkloadSpec,
    seed: int,
    vocab_size: int,
    num_rounds: int,
    engine: BenchEngine,
    peers: list[BenchEngine],
    progress: Progress,
    settle_s: float = 0.0,
) -> Rounds:
    """Warm up each engine, then run `num_rounds` rounds in strict turns.

    settle_s: seconds of rest before each turn
    """
    engines = [engine, *peers]
    task = progress.add_task(spec.name, total=(num_rounds + 1) * len(engines))
    rounds = Rounds(peers=[PeerRounds(peer.name) for peer in peers])
    for round_number in range(num_rounds + 1):
        requests = make_requests(spec, seed, round_number, vocab_size)
        timed = []
        for each in engines:
            name = "warm-up" if round_number == WARM_UP_ROUND else f"round {round_number}"
            progress.update(task, description=f"{spec.name}: {name}, {each.name}", refresh=True)
            time.sleep(settle_s)
            timed.append(time_run(each, requests))
            progress.update(task, advance=1, refresh=True)
        if round_number == WARM_UP_ROUND:
            continue
        ours, *theirs = timed
        rounds.output_tokens.append(count_output_tokens(requests))
        rounds.runs.append(ours.seconds)
        for peer, run in zip(rounds.peers, theirs, strict=True):
            peer.runs.append(run.seconds)
            peer.differences += _differences(round_number, ours.outputs, run.outputs)
        speeds = (
            f"{e.name} {rounds.output_tokens[-1] / t.seconds:.1f}"
            for e, t in zip(engines, timed, strict=True)
        )
        progress.console.print(
            f"{spec.name}, round {round_number} of {num_rounds}: {', '.join(speeds)} tokens/s"
        )
    progress.remove_task(task)
    return rounds


@dataclass(frozen=True, slots=True)
class TimedRun:
    seconds: float
    outputs: list[list[int]]


def time_run(engine: BenchEngine, requests: list[BenchRequest]) -> TimedRun:
    """Run the requests once. Raises `BenchError` if the engine returns too few tokens."""
    clock = MonotonicClock()
    gc.collect()  # so that no engine pays for the garbage of another
    started = clock.now()
    outputs = engine.generate(requests)
    seconds = clock.now() - started
    if [len(output) for output in outputs] != [request.max_tokens for request in requests]:
        raise BenchError(
            f"{engine.name} did not return all requested tokens, so its speed is not reported."
        )
    return TimedRun(seconds, outputs)


def _differences(
    round_number: int, ours: list[list[int]], theirs: list[list[int]]
) -> list[TokenMismatch]:
    found = []
    for request, (output, peer_output) in enumerate(zip(ours, theirs, strict=True)):
        for position, (token_id, peer_token_id) in enumerate(zip(output, peer_output, strict=True)):
            if token_id != peer_token_id:
                found.append(
                    TokenMismatch(round_number, request, position, token_id, peer_token_id)
                )
                break  # only the first difference counts: later tokens depend on it
    return found
