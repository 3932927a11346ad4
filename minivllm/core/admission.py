"""Admission: when a waiting sequence may join the batch, apart from memory, slots and budget.

    continuous  at every step (the default)
    static      when all sequences of the last batch have ended
    sequential  like static, with batches of one request

Static and sequential are baselines: earlier servers worked in these ways. With `batch_delay`, the
first sequence waits until `batch_size` sequences wait or the oldest has waited `batch_delay`
seconds.

The requests of an admitted batch are not held again, because the batch may need several steps to
enter. A preempted sequence is not held either. A batch that cannot advance (beams that wait for a
preempted sibling) would never end, so other requests are then admitted.
"""

from typing import NamedTuple

from minivllm.config import Batching
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.core.request_queue import RequestQueue
from minivllm.errors import RequestTooLargeError
from minivllm.events.types import DeferReason


class Hold(NamedTuple):
    reason: DeferReason
    need: int
    free: int


class AdmissionPolicy:
    def __init__(self, batching: Batching, batch_delay: float, batch_size: int) -> None:
        self._batching = batching
        self._batch_delay = batch_delay
        self._batch_size = batch_size
        self._let_in: set[int] = set()
        """Arrival numbers of the requests in the batch that was let in last."""

    def hold(
        self, waiting: RequestQueue, running: list[Sequence], nothing_scheduled: bool, now: float
    ) -> Hold | None:
        """Return why the first waiting sequence may not be admitted now. If it may, note that its
        batch has been let in, and return None.

        now: seconds, on the same clock as `arrival_time`.
        """
        first = waiting.peek()
        if first.request.awaits_grammar:
            return Hold("grammar_not_compiled", 0, 0)
        if first.status is RequestStatus.PREEMPTED or first.request.arrival_number in self._let_in:
            return None
        return self._hold_newcomer(waiting, running, nothing_scheduled, now)

    def _hold_newcomer(
        self, waiting: RequestQueue, running: list[Sequence], nothing_scheduled: bool, now: float
    ) -> Hold | None:
        """Return why the first waiting sequence, of no batch so far, must wait; None if it joins.

        Before it returns None, `_let_in` gets the arrival numbers of the requests that may join
        from now on: those that wait; with `sequential`, only the first.

        nothing_scheduled: the running sequences got no token in this step
        """
        if self._batching != "continuous" and running and not nothing_scheduled:
            return Hold("static_batch", len(running), 0)
        if self._batch_delay and len(waiting) < self._batch_size:
            oldest = min(sequence.request.arrival_time for sequence in waiting)
            if now - oldest < self._batch_delay:
                return Hold("batch_delay", self._batch_size, len(waiting))
        newcomers = [waiting.peek()] if self._batching == "sequential" else waiting
        self._let_in = {sequence.request.arrival_number for sequence in newcomers}
        return None

    def batch_is_full(self) -> None:
        """Close a static batch: a sequence that was let in found no slot or no memory."""
        if self._batching != "continuous":
            self._let_in = set()


def refuse_if_too_large(request: Request, manager: KVCacheManager, max_model_len: int) -> None:
    """Raise `RequestTooLargeError` if `request` alone would not fit into the KV cache.

    Such a request would wait for ever, and so would every request behind it in the queue.
    """
    params = request.params
    prompt, output = len(request.prompt_token_ids), params.max_tokens
    # The last token is sampled but never computed, so it needs no slot in a block.
    num_blocks = manager.num_blocks_for(min(prompt + output, max_model_len) - 1)
    # Samples share the full blocks of the prompt; each sample needs its own blocks for the rest.
    # Beams wait for one another, so all must fit at once, even if they no longer share blocks after
    # a preemption.
    num_shared = 0 if params.use_beam_search else prompt // manager.block_size
    need = num_shared + params.num_sequences * (num_blocks - num_shared)
    have = len(manager.pool.blocks)
    if need > have:
        samples = (
            f" in each of {params.num_sequences} sequences" if params.num_sequences > 1 else ""
        )
        raise RequestTooLargeError(
            f"Request {request.request_id!r} needs up to {need} KV cache blocks ({prompt} prompt"
            f" and {output} output tokens{samples}, {manager.block_size} per block), but the cache"
            f" has {have}: shorten the prompt, lower max_tokens, or use an engine with more blocks"
            " (num_gpu_blocks_override, kv_cache_memory_bytes)."
        )
