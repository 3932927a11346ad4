"""Routers: which replica gets a request, seen from outside as a load balancer sees it.

    random        any, by a seeded draw: what a balancer does that knows nothing
    least-loaded  the one with the least to do; one that waits counts as four that run
                  (vLLM's measure)
    prefix-aware  the one whose cache holds most of the prompt, unless it is far busier than others

The last asks the replicas' real caches, as routers do that follow the engines' KV events. The easy
thing to get wrong is to follow the cache alone: one popular prefix would send everybody to one
replica while the others are idle.

To add a router: one more class here, and its name in `ROUTERS`.
"""

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from random import Random
from types import MappingProxyType
from typing import Protocol

from minivllm.core.request import Request
from minivllm.lab.simulate.replica import Replica

FAR_BUSIER = 1.5
"""A replica with more than so many times the least load is passed over, if the difference is more
than `SLACK`.
"""
SLACK = 16
"""Of load: differences of a few requests are no reason to give up a cached prefix."""


class Router(Protocol):
    needs_replicas_now: bool
    """Whether `choose` looks at the replicas: they must then stand at the moment of the arrival."""

    def choose(self, request: Request, replicas: Seq[Replica]) -> Replica:
        """The replica that serves `request`."""


class RandomRouter:
    """Each replica with the same probability."""

    needs_replicas_now = False

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"router/{seed}")

    def choose(self, request: Request, replicas: Seq[Replica]) -> Replica:
        return replicas[self._rng.randrange(len(replicas))]


class LeastLoadedRouter:
    """The least load; equal ones in turn, or the first would get all the work of quiet times."""

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
    """The longest cached prefix among those that are not far busier than the least loaded one."""

    needs_replicas_now = True

    def __init__(self, seed: int) -> None:
        self._least_loaded = LeastLoadedRouter(seed)

    def choose(self, request: Request, replicas: Seq[Replica]) -> Replica:
        least = self._least_loaded.choose(request, replicas)
        limit = max(least.load + SLACK, FAR_BUSIER * least.load)
        # The request keeps its hash chain, so that asking every replica hashes nothing twice.
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
"""By name: makes one from a seed."""
