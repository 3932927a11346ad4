"""Engines take turns on the same requests: times, tokens, and medians over the rounds.

A machine's speed changes by tens of percent within an hour, so only neighbouring turns can be
compared: a ratio is the median of the rounds' own ratios. OpenMP threads keep spinning after their
work (Intel's: for 200 ms), so there is a pause before each turn if an engine runs in another
process.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain

from rich.progress import Progress

from minivllm.clock import MonotonicClock
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.peers import BenchEngine
from minivllm.lab.bench.throughput.workloads import BenchRequest

WARM_UP_TOKENS = 128
"""Most output tokens of a request in the first round, which is not counted."""
SETTLE_S = 0.3


@dataclass(slots=True)
class EngineRounds:
    """Measurements of one engine; entry i of each list is round i."""

    name: str
    runs: list[float] = field(default_factory=list)  # seconds
    outputs: list[list[list[int]]] = field(default_factory=list)  # token ids of each request

    @property
    def speeds(self) -> list[float]:
        """Output tokens per second."""
        rounds = zip(self.outputs, self.runs, strict=True)
        return [sum(map(len, outputs)) / run for outputs, run in rounds]

    @property
    def tokens_per_s(self) -> float:
        return statistics.median(self.speeds)

    def ratios(self, peer: "EngineRounds") -> list[float]:
        """Return for each round this engine's speed divided by the peer's."""
        return [ours / theirs for ours, theirs in zip(self.speeds, peer.speeds, strict=True)]

    def ratio(self, peer: "EngineRounds") -> float:
        return statistics.median(self.ratios(peer))

    def identical(self, peer: "EngineRounds") -> float:
        """Return the share of the requests, over all rounds, in which both wrote the same."""
        pairs = zip(chain(*self.outputs), chain(*peer.outputs), strict=True)
        return statistics.fmean(ours == theirs for ours, theirs in pairs)


def measure_rounds(
    engines: list[BenchEngine],
    requests_of: Callable[[int], list[BenchRequest]],
    num_rounds: int,
    progress: Progress,
    label: str,
    settle_s: float = 0.0,
) -> list[EngineRounds]:
    """Warm up each engine, then run `num_rounds` rounds in strict turns.

    requests_of: number of a round -> its requests; round 0 is the warm-up
    settle_s: seconds of rest before each turn
    """
    task = progress.add_task(label, total=(num_rounds + 1) * len(engines))
    measured = [EngineRounds(engine.name) for engine in engines]
    for number in range(num_rounds + 1):
        requests = requests_of(number)
        if number == 0:
            requests = [replace(r, max_tokens=min(r.max_tokens, WARM_UP_TOKENS)) for r in requests]
        for engine, rounds in zip(engines, measured, strict=True):
            turn = f"round {number}" if number else "warm-up"
            progress.update(task, description=f"{label}: {turn}, {engine.name}", refresh=True)
            time.sleep(settle_s)
            seconds, outputs = _timed(engine, requests)
            if number:
                rounds.runs.append(seconds)
                rounds.outputs.append(outputs)
            progress.update(task, advance=1, refresh=True)
        if number:
            speeds = ", ".join(f"{rounds.name} {rounds.speeds[-1]:.1f}" for rounds in measured)
            progress.console.print(f"{label}, round {number} of {num_rounds}: {speeds} tokens/s")
    progress.remove_task(task)
    return measured


def _timed(engine: BenchEngine, requests: list[BenchRequest]) -> tuple[float, list[list[int]]]:
    clock = MonotonicClock()
    gc.collect()  # so that no engine pays for the garbage of another
    started = clock.now()
    outputs = engine.generate(requests)
    seconds = clock.now() - started
    if [len(output) for output in outputs] != [request.max_tokens for request in requests]:
        raise BenchError(
            f"{engine.name} did not return all requested tokens, so its speed is not reported."
        )
    return seconds, outputs
