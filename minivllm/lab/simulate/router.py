"""Routers: choose the replica for a request, like a load balancer in front of the replicas.

    random        a random replica, from a seed: a load balancer without information
    least-loaded  the replica with the least load; a waiting request counts like four running
                  requests (vLLM's measure)
    prefix-aware  the replica that has most of the prompt in its cache, but no much busier
                  replica, so that one popular prefix does not overload one replica

To add a router, add a class here and its name to `ROUTERS`.
"""

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from random import Random
from types import MappingProxyType
from typing import Protocol

from minivllm.core.request import Request
from minivllm.lab.simulate.replica import Replica

FAR_BUSIER = 1.5
"""A replica is much busier if its load is more than this factor times the least load, and more than
`SLACK` above the least load.
"""
SLACK = 16
"""A small difference in load does not justify losing a cached prefix."""


class Router(Protocol):
    needs_replicas_now: bool
    """Whether `choose` looks at the replicas. If so, they must first run until the arrival."""

    def choose(self, request: Request, replicas: Seq[Replica]) -> Replica:
        """Choose the replica that serves `request`."""


class RandomRouter:
    needs_replicas_now = False

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"router/{seed}")

    def choose(self, request: Request, replicas: Seq[Replica]) -> Replica:
        return replicas[self._rng.randrange(len(replicas))]


class LeastLoadedRouter:
    """Chooses the least loaded replica.

    Equally loaded replicas take turns. Otherwise the first replica would get every request while
    all are idle.
    """

    needs_replicas_now = True

    def __init__(self, seed: int) -> None:
        self._next = 0

    def choose(self, request: Request, replicas: Seq[Replica]) -> Replica:
        count = len(replicas)
        turns = (replicas[(self._next + i) % count] for i in range(count))
        chosen = min(turns, key=lambda replica: replica.load)
        self._next = (self._next + 1) % count
        return chosen


class PrefixAwareRouter:
    """Chooses the replica with the longest cached prefix of the prompt."""

    needs_replicas_now = True

    def __init__(self, seed: int) -> None:
        self._least_loaded = LeastLoadedRouter(seed)

    def choose(self, request: Request, replicas: Seq[Replica]) -> Replica:
        least = self._least_loaded.choose(request, replicas)
        limit = max(least.load + SLACK, FAR_BUSIER * least.load)
        # The request stores its block hashes for all replicas.
        best, most = least, _num_cached(least, request)
        for replica in replicas:
            if replica.load <= limit and (cached := _num_cached(replica, request)) > most:
                best, most = replica, cached
        return best


def _num_cached(replica: Replica, request: Request) -> int:
    return replica.scheduler.kv_cache_manager.get_computed_blocks(
        request.sequences[0]
    ).num_cached_tokens


ROUTERS: Mapping[str, Callable[[int], Router]] = MappingProxyType(
    {"random": RandomRouter, "least-loaded": LeastLoadedRouter, "prefix-aware": PrefixAwareRouter}
)
"""Name of a router -> function that makes the router from a seed."""
