"""`EngineSpeed`: an engine's speed on rounds of requests, optionally with a time limit.

A slow peer gets its requests in batches, and no new batch after the time limit. Its speed is
computed from the finished requests, which represent all, because their order is random.
"""

import gc
import statistics
from dataclasses import dataclass, field, replace

from minivllm.clock import Clock
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.peers import BenchEngine
from minivllm.lab.bench.throughput.workloads import BenchRequest, count_output_tokens

WARM_UP_TOKENS = 16
"""Maximum number of output tokens per request in the first round, which is not counted."""


@dataclass(slots=True)
class EngineSpeed:
    """Measurements of one engine; entry i of each list is round i."""

    name: str
    runs: list[float] = field(default_factory=list)
    """Seconds of each round."""
    requests: list[int] = field(default_factory=list)
    """Number of requests finished in each round."""
    output_tokens: list[int] = field(default_factory=list)
    """Output tokens of the requests in `requests`, per round."""
    extrapolated: bool = False
    """Whether the engine did not run all requests, so that the speed is an extrapolation."""
    attention: str | None = None
    left_out: str | None = None
    """Why there is no speed; None if there is a speed."""

    @property
    def tokens_per_s(self) -> float | None:
        if self.left_out is not None:
            return None
        return statistics.median(
            tokens / run for tokens, run in zip(self.output_tokens, self.runs, strict=True)
        )


def time_engine(
    speed: EngineSpeed,
    engine: BenchEngine,
    rounds: list[list[BenchRequest]],
    clock: Clock,
    *,
    batch_size: int | None = None,
    limit_s: float | None = None,
) -> None:
    """Warm up with the first of `rounds`, time the other rounds, and add the times to `speed`.

    batch_size: number of requests that the engine gets at a time; by default all of them
    limit_s: seconds after which the engine gets no new batch in a round
    """
    first, *counted = rounds
    warm_up(engine, first[: batch_size or len(first)])
    for requests in counted:
        time_round(speed, engine, requests, clock, batch_size=batch_size, limit_s=limit_s)


def warm_up(engine: BenchEngine, requests: list[BenchRequest]) -> None:
    """Run requests with short outputs, without counting the time."""
    engine.generate(
        [
            replace(request, max_tokens=min(request.max_tokens, WARM_UP_TOKENS))
            for request in requests
        ]
    )


def time_round(
    speed: EngineSpeed,
    engine: BenchEngine,
    requests: list[BenchRequest],
    clock: Clock,
    *,
    batch_size: int | None = None,
    limit_s: float | None = None,
) -> None:
    """Time one round and add it to `speed`; `time_engine` explains the options."""
    step = batch_size or len(requests)
    gc.collect()
    num_done, started = 0, clock.now()
    while num_done < len(requests):
        batch = requests[num_done : num_done + step]
        outputs = engine.generate(batch)
        if [len(output) for output in outputs] != [request.max_tokens for request in batch]:
            raise BenchError(
                f"{speed.name} did not return all requested tokens, so its speed is not reported."
            )
        num_done += len(batch)
        if limit_s is not None and clock.now() - started >= limit_s:
            break
    speed.runs.append(clock.now() - started)
    speed.requests.append(num_done)
    speed.output_tokens.append(count_output_tokens(requests[:num_done]))
    speed.extrapolated |= num_done < len(requests)
