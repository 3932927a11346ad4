"""`EngineSpeed`: an engine's speed on rounds of requests, or on as many as fit into a time limit.

A slow peer gets its requests in batches, and no new batch after the limit. The speed is that of the
finished requests, which represent the others because their order is random.
"""

import gc
import statistics
from dataclasses import dataclass, field, replace

from minivllm.clock import Clock
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.peers import BenchEngine
from minivllm.lab.bench.throughput.workloads import BenchRequest, count_output_tokens

WARM_UP_TOKENS = 16
"""Most output tokens per request in the uncounted first round."""


@dataclass(slots=True)
class EngineSpeed:
    """Measurements of one engine; entry i of each list is round i."""

    name: str
    runs: list[float] = field(default_factory=list)
    """Seconds of each round."""
    requests: list[int] = field(default_factory=list)
    """Number of requests finished in each round."""
    output_tokens: list[int] = field(default_factory=list)
    """Tokens that these requests asked for."""
    extrapolated: bool = False
    """Whether some requests were not run, so that the speed is that of the others."""
    attention: str | None = None
    left_out: str | None = None
    """Why there is no speed; None if there is one."""

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
    """Warm up with the first of `rounds` and time the others into `speed`.

    With `batch_size`, the engine gets that many requests at a time, and no more after `limit_s`
    seconds.
    """
    first, *counted = rounds
    warm_up(engine, first[: batch_size or len(first)])
    for requests in counted:
        time_round(speed, engine, requests, clock, batch_size=batch_size, limit_s=limit_s)


def warm_up(engine: BenchEngine, requests: list[BenchRequest]) -> None:
    """Run requests with short outputs that are not counted."""
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
    """Add one round to `speed`; the options are those of `time_engine`."""
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
