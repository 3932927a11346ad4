"""`simulate`: run requests through a router and replicas, event by event, until all are served.

Before each arrival, all replicas that the router looks at run until the time of the arrival, but
not further: the router must not see the future.
"""

import gc
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from minivllm.config import EngineConfig
from minivllm.lab.simulate.arrivals import Arrival
from minivllm.lab.simulate.assumed_drafts import check_drafts
from minivllm.lab.simulate.replica import Replica, make_request
from minivllm.lab.simulate.router import Router
from minivllm.lab.simulate.step_time_model import Fit

REPORT_EVERY = 256
"""Number of arrivals between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Setup:
    config: EngineConfig
    """Must set `max_model_len` and `num_gpu_blocks_override`, because there is no model."""
    replicas: int
    router: str
    seed: int = 0
    acceptance_rate: float | None = None
    """With a `speculative_config`: the probability that a draft is right if those before it are."""
    rate: float | None = None
    """Requests per second; None leaves the arrival times as they are."""

    def __post_init__(self) -> None:
        check_drafts(self.config, self.acceptance_rate)


def build_replicas(setup: Setup, fit: Fit) -> list[Replica]:
    times = fit.model(setup.config.max_num_batched_tokens)
    return [
        Replica(setup.config, times, f"{setup.seed}/{number}", setup.acceptance_rate)
        for number in range(setup.replicas)
    ]


def simulate(
    setup: Setup,
    replicas: Seq[Replica],
    crowd: Seq[Arrival],
    progress: Callable[[int], object] = lambda finished: None,
) -> None:
    """Serve all requests of `crowd`, which must be in order of arrival.

    progress: called from time to time with the number of finished requests
    """
    router = Router(setup.router, replicas, setup.seed)

    def advance(moment: float) -> None:
        for replica in replicas:
            replica.run_until(moment)

    was_enabled = gc.isenabled()
    # This loop leaves no reference cycles (`Replica._finish`), but visiting a million live objects
    # would cost the garbage collector a tenth of the time.
    gc.disable()
    try:
        for number, arrival in enumerate(crowd):
            request = make_request(number, arrival)
            if router.needs_replicas_now:
                advance(arrival.at)
            chosen = router.choose(request)
            chosen.run_until(arrival.at)
            chosen.add(arrival, request)
            if number % REPORT_EVERY == 0:
                progress(_num_finished(replicas))
        moment, stretch = max(replica.now for replica in replicas), 1.0
        while any(replica.scheduler.requests for replica in replicas):
            moment += stretch
            stretch *= 1.5
            advance(moment)
            progress(_num_finished(replicas))
    finally:
        if was_enabled:
            gc.enable()


def _num_finished(replicas: Seq[Replica]) -> int:
    return sum(len(replica.finished) for replica in replicas)
