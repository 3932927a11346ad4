"""`simulate`: run requests through a router and replicas, event by event, until all are served.

Before each arrival, all replicas that the router looks at run until the time of the arrival, but
not further: the router must not see the future. Routers are like a load balancer:

random        a random replica, from a seed: a load balancer without information
least-loaded  the replica with the least load; a waiting request counts like four running
              requests (vLLM's measure)
prefix-aware  the replica that has most of the prompt in its cache, but no much busier
              replica, so that one popular prefix does not overload one replica
"""

import gc
import math
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from random import Random
from typing import Annotated, Literal, get_args

from msgspec import Meta

from minivllm.checks import check_fields
from minivllm.config import EngineConfig
from minivllm.core.request import Request
from minivllm.errors import ConfigError
from minivllm.lab.simulate.arrivals import Arrival
from minivllm.lab.simulate.prefill_decode import PrefillDecode
from minivllm.lab.simulate.replica import Replica, make_request
from minivllm.lab.simulate.step_times import Fit
from minivllm.lab.simulate.workload import at_rate

RouterName = Literal["random", "least-loaded", "prefix-aware"]
ROUTERS = get_args(RouterName)
FAR_BUSIER, SLACK = 1.5, 16
"""A replica is much busier if its load is more than both `FAR_BUSIER` times the least load and
`SLACK` above it: a small difference does not justify losing a cached prefix.
"""
REPORT_EVERY = 256  # number of arrivals between two reports of progress
COMFORTABLE, MANY = 0.8, 1000
"""Share of the highest rate that is used if no rate is given, and requests to find that rate."""
_RATES = "more than 0 requests per second, or inf for all at once"


@dataclass(frozen=True, slots=True)
class Setup:
    config: EngineConfig
    """Must set `max_model_len` and `num_gpu_blocks_override`, because there is no model."""
    replicas: int
    router: RouterName
    seed: int = 0
    acceptance_rate: Annotated[float, Meta(ge=0, le=1)] | None = None
    """With a `speculative_config`: the probability that a draft is right if those before it are."""
    rate: Annotated[float, Meta(gt=0, description=_RATES)] | None = None
    """None leaves the arrival times as they are."""
    prefill_replicas: int = 0
    decode_replicas: int = 0
    gigabytes_per_second: Annotated[float, Meta(gt=0, le=10_000)] = 25.0  # into each decoder

    def __post_init__(self) -> None:
        check_fields(self, ConfigError)
        kinds = self.prefill_replicas, self.decode_replicas
        is_plain = self.replicas == 1 and self.config.enable_prefix_caching
        if any(kinds) and not (all(kinds) and is_plain):
            flags = "--prefill-replicas and --decode-replicas, and no --replicas"
            raise ConfigError(f"Give {flags}; blocks are found by the prefix cache.")
        speculative = self.config.speculative_config
        if (speculative is None) != (self.acceptance_rate is None):
            raise ConfigError(
                "A simulation has no texts, so it cannot know how many drafts are right: give"
                " --speculative-config and --acceptance-rate together, or leave out both."
            )
        if speculative is not None and speculative.method != "ngram":
            raise ConfigError(
                "The step times do not say how long a draft model takes: simulate"
                ' --speculative-config with "method": "ngram".'
            )


class Router:
    def __init__(self, name: str, replicas: Seq[Replica], seed: int) -> None:
        self._name, self._replicas = name, replicas
        self._rng = Random(f"router/{seed}")
        self._turns = deque(replicas)
        self.needs_replicas_now = name != "random"
        """Whether `choose` looks at the replicas. If so, they must first run until the arrival."""

    def choose(self, request: Request) -> Replica:
        if self._name == "random":
            return self._rng.choice(self._replicas)
        # Equally loaded replicas take turns. Otherwise the first replica would get every request
        # while all are idle.
        least = min(self._turns, key=lambda replica: replica.load)
        self._turns.rotate(-1)
        if self._name == "least-loaded":
            return least
        limit = max(least.load + SLACK, FAR_BUSIER * least.load)

        def num_cached(replica: Replica) -> int:
            # The request stores its block hashes for all replicas.
            manager = replica.scheduler.kv_cache_manager
            return manager.get_computed_blocks(request.sequences[0]).num_cached_tokens

        # The least loaded comes first, because `max` returns the first of equal ones.
        near = [replica for replica in self._replicas if replica.load <= limit]
        return max([least, *near], key=num_cached)


def build_replicas(setup: Setup, fit: Fit) -> list[Replica]:
    times = fit.model(setup.config.max_num_batched_tokens)
    return [
        Replica(setup.config, times, f"{setup.seed}/{number}", setup.acceptance_rate)
        for number in range(setup.prefill_replicas + setup.decode_replicas or setup.replicas)
    ]


def simulate(
    setup: Setup,
    replicas: Seq[Replica],
    crowd: Seq[Arrival],
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Serve all requests of `crowd`, which must be in order of arrival.

    progress: called from time to time
    """
    num_first = setup.prefill_replicas
    first, second = replicas[:num_first] or replicas, replicas[num_first:]
    router, parts = Router(setup.router, first, setup.seed), replicas
    if num_first:
        choose = Router(setup.router, second, setup.seed).choose
        parts = [PrefillDecode(first, second, choose, setup.gigabytes_per_second)]

    def advance(moment: float) -> None:
        for part in parts:
            part.run_until(moment)

    was_enabled = gc.isenabled()
    # This loop leaves no reference cycles (`Replica._finish`), but visiting a million live objects
    # would cost the garbage collector a tenth of the time.
    gc.disable()
    try:
        for number, arrival in enumerate(crowd):
            request = make_request(number, arrival)
            if router.needs_replicas_now or num_first:
                advance(arrival.at)
            chosen = router.choose(request)
            chosen.run_until(arrival.at)
            chosen.add(arrival, request, arrival.at)
            if number % REPORT_EVERY == 0:
                progress()
        moment, stretch = max(replica.now for replica in replicas), 1.0
        while any(replica.scheduler.requests for replica in replicas):
            moment += stretch
            stretch *= 1.5
            advance(moment)
            progress()
    finally:
        if was_enabled:
            gc.enable()


def comfortable_rate(crowd: list[Arrival], setup: Setup, fit: Fit) -> float:
    """80 % of the requests per second that the replicas serve if many arrive at once."""
    replicas, many = build_replicas(setup, fit), at_rate(crowd[:MANY], math.inf)
    simulate(setup, replicas, many)
    return COMFORTABLE * len(many) / max(replica.now for replica in replicas)
