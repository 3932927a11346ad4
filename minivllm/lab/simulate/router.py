"""Routers: choose the replica for a request, like a load balancer in front of the replicas.

random        a random replica, from a seed: a load balancer without information
least-loaded  the replica with the least load; a waiting request counts like four running
              requests (vLLM's measure)
prefix-aware  the replica that has most of the prompt in its cache, but no much busier
              replica, so that one popular prefix does not overload one replica
"""

from collections.abc import Sequence as Seq
from random import Random

from minivllm.core.request import Request
from minivllm.lab.simulate.replica import Replica

ROUTERS = ("random", "least-loaded", "prefix-aware")
FAR_BUSIER = 1.5
"""A replica is much busier if its load is more than this factor times the least load, and more than
`SLACK` above the least load.
"""
SLACK = 16
"""A small difference in load does not justify losing a cached prefix."""


class Router:
    def __init__(self, name: str, replicas: Seq[Replica], seed: int) -> None:
        self._name, self._replicas = name, replicas
        self._rng = Random(f"router/{seed}")
        self._next = 0
        self.needs_replicas_now = name != "random"
        """Whether `choose` looks at the replicas. If so, they must first run until the arrival."""

    def choose(self, request: Request) -> Replica:
        """Choose the replica that serves `request`."""
        if self._name == "random":
            return self._replicas[self._rng.randrange(len(self._replicas))]
        least = self._least_loaded()
        return least if self._name == "least-loaded" else self._with_prefix(request, least)

    def _least_loaded(self) -> Replica:
        # Equally loaded replicas take turns. Otherwise the first replica would get every request
        # while all are idle.
        turns = [*self._replicas[self._next :], *self._replicas[: self._next]]
        self._next = (self._next + 1) % len(turns)
        return min(turns, key=lambda replica: replica.load)

    def _with_prefix(self, request: Request, least: Replica) -> Replica:
        limit = max(least.load + SLACK, FAR_BUSIER * least.load)

        def num_cached(replica: Replica) -> int:
            # The request stores its block hashes for all replicas.
            manager = replica.scheduler.kv_cache_manager
            return manager.get_computed_blocks(request.sequences[0]).num_cached_tokens

        # The least loaded comes first, because `max` returns the first of equal ones.
        near = [replica for replica in self._replicas if replica.load <= limit]
        return max([least, *near], key=num_cached)
