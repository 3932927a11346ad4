"""`simulate`: a crowd through replicas and a router, event by event, until everybody has been
served.

Time belongs to the arrivals. Before each one all replicas that the router looks at are brought to
that moment, and no further; what a replica does between two arrivals is its own affair. The easy
thing to get wrong is to let a replica run ahead: the router would see the future.
"""

import gc
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from minivllm.config import EngineConfig
from minivllm.lab.simulate.fit import Fit
from minivllm.lab.simulate.replica import Replica, make_request
from minivllm.lab.simulate.router import ROUTERS
from minivllm.lab.simulate.workload import Arrival

REPORT_EVERY = 256
"""Arrivals between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What one simulation runs on."""

    config: EngineConfig
    """With `max_model_len` and `num_gpu_blocks_override`: without a model, nobody else settles
    them.
    """
    num_replicas: int
    router: str
    seed: int = 0


def build_replicas(setup: Setup, fit: Fit) -> list[Replica]:
    times = fit.model(setup.config.max_num_batched_tokens)
    return [Replica(setup.config, times) for _ in range(setup.num_replicas)]


def simulate(
    setup: Setup,
    replicas: Seq[Replica],
    crowd: Seq[Arrival],
    progress: Callable[[int], None] = lambda finished: None,
) -> None:
    """Serve `crowd`, in order of arrival, to its end. `progress` is called now and then with the
    requests that are done.
    """
    router = ROUTERS[setup.router](setup.seed)
    was_enabled = gc.isenabled()
    # Nothing here leaves cycles behind (`Replica._finish`), and looking through a million live
    # objects costs a tenth.
    gc.disable()
    try:
        for number, arrival in enumerate(crowd):
            request = make_request(number, arrival)
            if router.needs_replicas_now:
                for replica in replicas:
                    replica.run_until(arrival.at)
                chosen = router.choose(request, replicas)
            else:
                chosen = router.choose(request, replicas)
                chosen.run_until(arrival.at)
            chosen.add(arrival, request)
            if number % REPORT_EVERY == 0:
                progress(_num_finished(replicas))
        _drain(replicas, progress)
    finally:
        if was_enabled:
            gc.enable()


def _drain(replicas: Seq[Replica], progress: Callable[[int], None]) -> None:
    """No more arrivals: every replica goes on, a stretch of simulated time after the other, until
    nobody is left.
    """
    moment = max(replica.now for replica in replicas)
    stretch = 1.0
    while any(replica.scheduler.requests for replica in replicas):
        moment += stretch
        stretch *= 1.5
        for replica in replicas:
            replica.run_until(moment)
        progress(_num_finished(replicas))


def _num_finished(replicas: Seq[Replica]) -> int:
    return sum(len(replica.finished) for replica in replicas)
