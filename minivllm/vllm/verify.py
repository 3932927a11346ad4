"""`Verifier`: compares the fold of all events with vLLM's own objects.

Not compared is what the scheduler does not know: rows of the batch, texts, reasons and times.
"""

from collections.abc import Iterator
from typing import Any

from minivllm.errors import EventLogError
from minivllm.events.fold import Fold
from minivllm.vllm.tap import short_hash
from minivllm.vllm.waits import waiting_of


class Verifier:
    def __init__(self, scheduler: Any, fold: Fold, *, with_tokens: bool) -> None:
        self._scheduler, self.fold, self._with_tokens = scheduler, fold, with_tokens
        self.num_checks = 0

    def check(self) -> None:
        """Raise `EventLogError` with the first difference."""
        self.num_checks += 1
        for what, ours, theirs in self._both():
            if ours != theirs:
                where = f"step {self.fold.step}: {what} is"
                raise EventLogError(f"{where} {ours} in the fold of the events, {theirs} in vLLM")

    def _both(self) -> Iterator[tuple[str, object, object]]:
        fold, scheduler = self.fold, self._scheduler
        manager = scheduler.kv_cache_manager
        pool = manager.block_pool
        for ours, block in zip(fold.blocks, pool.blocks, strict=True):
            theirs = block.ref_cnt, block.block_hash and short_hash(block.block_hash)
            yield f"block {block.block_id}", (ours.ref_cnt, ours.hash), theirs
        free = pool.free_block_queue.get_all_free_blocks()
        yield "the free queue", list(fold.free_queue), [block.block_id for block in free]
        yield "waiting", fold.waiting, [waits.request_id for waits in waiting_of(scheduler)]
        yield "running", fold.running, [runs.request_id for runs in scheduler.running]
        yield "who is there", fold.sequences.keys(), scheduler.requests.keys()
        tables = manager.coordinator.single_type_managers[0].req_to_blocks
        for name, request in scheduler.requests.items():
            ours, table = fold.sequences[name], [block.block_id for block in tables.get(name, ())]
            yield f"the table of {name}", ours.block_table, table
            status = request.status.name.partition("_")[0]  # WAITING_FOR_... waits, too
            numbers = request.num_computed_tokens, request.num_preemptions, status
            own = ours.num_computed_tokens, ours.num_preemptions, ours.status
            yield f"(computed tokens, preemptions, status) of {name}", own, numbers
            if self._with_tokens:
                tokens = list(request.output_token_ids)
                yield f"the output of {name}", ours.output_token_ids.tolist(), tokens
