"""`KVConsumer`: the decode side. It loads a prompt's blocks from the engine that computed them.

    admission   asks for the prompt's full blocks that its own cache lacks, by their hashes
    arrival     writes their bytes into its own blocks, and goes on behind them

Nothing comes if the other engine is gone or hangs, its lease is over, or bytes are damaged. Then
the decoder computes the tokens itself. It asks once for each request, unless its cache has all.

Source: vLLM `vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py`.
"""

from collections.abc import Callable
from typing import Any

from minivllm.core.block_pool import BlockHash
from minivllm.core.request import Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.events.bus import EventBus
from minivllm.kv_transfer.connector import KVConnector, Link, Load, Mark
from minivllm.kv_transfer.producer import KVProducer


class Fetch(Mark):
    """Blocks that have been asked for. This default asks a producer in the same thread."""

    blocks: list[bytes]  # all of them; none before they have come, or if nothing comes

    def __init__(self, producer: KVProducer, hashes: list[BlockHash]) -> None:
        self._producer = producer
        self._lease, self.blocks = producer.read(hashes)

    def query(self) -> bool:
        self._producer.read_leases.append(self._lease)
        return True


class KVConsumer(KVConnector):
    def __init__(
        self, scheduler: Scheduler, bus: EventBus, link: Link, memory: Any,
        fetch: Callable[[Sequence, list[BlockHash]], Fetch], source: str,
    ) -> None:  # fmt: skip
        """memory: as `block_bytes.BlockBytes`; fetch: asks `source` for a sequence's blocks"""
        super().__init__(scheduler, bus, link)
        self.memory, self.fetch, self.source = memory, fetch, source

    def get_num_new_matched_tokens(self, sequence: Sequence, num_computed_tokens: int) -> int:
        if sequence.num_preemptions or sequence.wants_prompt_logprobs:
            return 0
        size = self._manager.block_size
        return max(sequence.num_prompt_tokens // size * size - num_computed_tokens, 0)

    def update_state_after_alloc(self, sequence: Sequence, num_external_tokens: int) -> None:
        super().update_state_after_alloc(sequence, num_external_tokens)
        load, end = self.loads[sequence], sequence.num_prompt_tokens // self._manager.block_size
        load.mark = self.fetch(sequence, sequence.block_hashes[end - len(load.blocks) : end])
        load.ends_at = self._link.send(len(load.blocks))

    def _receive(self, load: Load) -> int:
        contents = load.mark.blocks  # read once: a peer that is too late may still fill it
        for block, content in zip(load.blocks, contents, strict=False):
            self.memory.write(block.block_id, content)
        return len(contents)
