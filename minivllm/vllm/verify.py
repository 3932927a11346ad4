"""`Verifier`: compares the fold of all events with vLLM's own objects.

Not compared is what the scheduler does not know: rows of the batch, texts, reasons and times.
"""

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
        ours = self._ours()
        for what, theirs in self._theirs().items():
            if ours.get(what) != theirs:
                raise EventLogError(
                    f"step {self.fold.step}: {what} is {ours.get(what)} in the fold of the events"
                    f" and {theirs} in vLLM"
                )

    def _ours(self) -> dict[str, object]:
        fold, state = self.fold, {}
        for number, block in enumerate(fold.blocks):
            state[f"block {number}"] = block.ref_cnt, block.hash
        state |= {"free queue": list(fold.free_queue), "waiting": fold.waiting}
        state |= {"running": fold.running, "requests": set(fold.sequences)}
        for name, one in fold.sequences.items():
            tokens = one.output_token_ids.tolist() if self._with_tokens else None
            numbers = one.num_computed_tokens, one.num_preemptions, one.status
            state[name] = one.block_table, tokens, *numbers
        return state

    def _theirs(self) -> dict[str, object]:
        scheduler, manager, state = self._scheduler, self._scheduler.kv_cache_manager, {}
        tables = manager.coordinator.single_type_managers[0].req_to_blocks
        for number, block in enumerate(manager.block_pool.blocks):
            state[f"block {number}"] = (
                block.ref_cnt,
                block.block_hash and short_hash(block.block_hash),
            )
        free = manager.block_pool.free_block_queue.get_all_free_blocks()
        state["free queue"] = [block.block_id for block in free]
        state["waiting"] = [one.request_id for one in waiting_of(scheduler)]
        state["running"] = [one.request_id for one in scheduler.running]
        state["requests"] = set(scheduler.requests)
        for name, one in scheduler.requests.items():
            tokens = list(one.output_token_ids) if self._with_tokens else None
            status = one.status.name.partition("_")[0]  # WAITING_FOR_... waits, too
            table = [block.block_id for block in tables.get(name, ())]
            state[name] = table, tokens, one.num_computed_tokens, one.num_preemptions, status
        return state
