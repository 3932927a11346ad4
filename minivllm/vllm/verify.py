"""`Verifier`: writes at once, and compares the fold of all events with vLLM's own objects.

Not compared is what the scheduler does not know: rows of the batch, texts, reasons and times.
"""

from collections.abc import Iterator
from typing import Any

from minivllm.errors import EventLogError
from minivllm.vllm.tap import short_hash
from minivllm.vllm.waits import waiting_of
from minivllm.vllm.writer import Writer


class Verifier(Writer):
    at_once = True

    def __init__(self, scheduler: Any, with_tokens: bool, *args: Any) -> None:
        super().__init__(*args)
        self._scheduler, self._with_tokens, self.num_checks = scheduler, with_tokens, 0

    def put(self, records: list[tuple]) -> None:
        """Write the records of a call. Raise `EventLogError` with the first difference."""
        self.take(records)
        self.num_checks += 1
        for what, ours, theirs in self._both():
            if ours != theirs:
                raise EventLogError(f"step {self.fold.step}: {what} is {ours}, in vLLM {theirs}")

    def _both(self) -> Iterator[tuple[str, object, object]]:
        fold, scheduler = self.fold, self._scheduler
        manager = scheduler.kv_cache_manager
        for ours, block in zip(fold.blocks, manager.block_pool.blocks, strict=True):
            theirs = block.ref_cnt, block.block_hash and short_hash(block.block_hash)
            yield f"block {block.block_id}", (ours.ref_cnt, ours.hash), theirs
        free = manager.block_pool.free_block_queue.get_all_free_blocks()
        yield "the free queue", list(fold.free_queue), [block.block_id for block in free]
        yield "waiting", fold.waiting, [waits.request_id for waits in waiting_of(scheduler)]
        yield "running", fold.running, [runs.request_id for runs in scheduler.running]
        yield "who is there", fold.sequences.keys(), scheduler.requests.keys()
        tables = manager.coordinator.single_type_managers[0].req_to_blocks
        for name, request in scheduler.requests.items():
            ours, table = fold.sequences[name], [block.block_id for block in tables.get(name, ())]
            status = request.status.name.partition("_")[0]  # WAITING_FOR_... waits, too
            theirs = table, request.num_computed_tokens, request.num_preemptions, status
            own = ours.block_table, ours.num_computed_tokens, ours.num_preemptions, ours.status
            yield f"(table, computed tokens, preemptions, status) of {name}", own, theirs
            if self._with_tokens:
                tokens = list(request.output_token_ids)
                yield f"the output of {name}", ours.output_token_ids.tolist(), tokens
