"""Prefill apart from decode: some replicas compute prompts, the others generate.

    arrival -> router -> P   computes the prompt, keeps its blocks, tells the proxy
               router -> D   loads the blocks over its link, computes the rest, generates

As with vLLM's proxy, the first token that counts comes from D. Connectors are the engine's own.
"""

from collections.abc import Callable
from types import SimpleNamespace

from minivllm.core.block_pool import BlockHash
from minivllm.core.request import Request, Sequence
from minivllm.kv_transfer.connector import Link
from minivllm.kv_transfer.consumer import Fetch, KVConsumer
from minivllm.kv_transfer.producer import KVProducer
from minivllm.lab.simulate.replica import Replica, make_request

KV_BYTES_PER_TOKEN = 46_080  # of SmolLM2-135M in float32, as the package's step times
NO_BYTES = SimpleNamespace(read=lambda block_id: b"", write=lambda block_id, content: None)


class PrefillDecode:
    def __init__(
        self, prefill: list[Replica], decode: list[Replica], choose: Callable[[Request], Replica],
        gigabytes_per_second: float,
    ) -> None:  # fmt: skip
        """choose: which of `decode` gets a request whose prompt is computed"""
        self._replicas, self._choose = [*prefill, *decode], choose
        self._producers: dict[int, KVProducer] = {}
        for replica in prefill:
            replica.max_output = 1
            parts = replica.scheduler, replica.bus, Link(replica.clock, 0.0), NO_BYTES
            replica.scheduler.connector = KVProducer(*parts, 30.0)  # seconds
        for replica in decode:
            block_bytes = replica.config.block_size * KV_BYTES_PER_TOKEN
            link = Link(replica.clock, block_bytes / (gigabytes_per_second * 1e9))
            parts = replica.scheduler, replica.bus, link, NO_BYTES
            replica.scheduler.connector = KVConsumer(*parts, self._fetch, "P")

    def _fetch(self, sequence: Sequence, hashes: list[BlockHash]) -> Fetch:
        return Fetch(self._producers.pop(int(sequence.request.request_id)), hashes)

    def run_until(self, moment: float) -> None:
        """Run all replicas, in the order in which their steps end."""
        while (soonest := min(self._replicas, key=Replica.next_end)).next_end() <= moment:
            soonest.run_until(soonest.next_end())
            if isinstance(producer := soonest.scheduler.connector, KVProducer):
                for served in soonest.finished:
                    self._producers[served.number] = producer
                    request = make_request(served.number, served.arrival)
                    second = self._choose(request).add(served.arrival, request, soonest.now)
                    second.admitted = served.admitted
                soonest.finished.clear()
