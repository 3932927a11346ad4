"""Admission: who may come in, apart from the question whether there is room.

Two gates. `refuse_if_too_large` stands at the door: what could never run to its end, even alone, is
not even queued. `AdmissionPolicy` stands between the waiting queue and the batch. With continuous
batching, the real thing, it always says yes and memory, slots and budget decide. The other two are
what servers did before, and are here to be measured against:

    continuous  whoever fits comes in, at every step
    static      a batch is made of those who wait, and the next one only when its slowest member has
                ended
    sequential  static, with batches of one request

With any of them, `batch_delay` makes the first one wait a little for company: until `batch_size`
requests wait, or the oldest of them has waited so long. A policy knows no memory and no clock: it
is told the time.

The easy thing to get wrong is who was let in already. A batch may need several steps to get in, as
the token budget lasts, and a preempted sequence is no newcomer: neither may be stopped at this gate
again. And a batch that cannot move (beams that wait for a preempted one) never ends: then it must
let others in.
"""

from typing import NamedTuple

from minivllm.config import Batching
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.core.request_queue import RequestQueue
from minivllm.errors import RequestTooLargeError
from minivllm.events.types import DeferReason


class Hold(NamedTuple):
    """Why the first waiting sequence stays outside, whatever room there is."""

    reason: DeferReason
    need: int
    free: int


class AdmissionPolicy:
    """Decides at each step whether the first waiting sequence may be looked at."""

    def __init__(self, batching: Batching, batch_delay: float, batch_size: int) -> None:
        self._batching = batching
        self._batch_delay = batch_delay
        self._batch_size = batch_size
        self._let_in: set[int] = set()
        """Arrival numbers of the requests that the gate was last opened for."""

    def hold(
        self, waiting: RequestQueue, running: list[Sequence], nothing_scheduled: bool, now: float
    ) -> Hold | None:
        """Why the first one waiting may not come in now; None if it may. `now`: seconds, as in
        `arrival_time`.
        """
        first = waiting.peek()
        if first.status is RequestStatus.PREEMPTED or first.request.arrival_number in self._let_in:
            return None
        if self._batching != "continuous" and running and not nothing_scheduled:
            return Hold("static_batch", len(running), 0)
        if self._batch_delay and len(waiting) < self._batch_size:
            oldest = min(sequence.request.arrival_time for sequence in waiting)
            if now - oldest < self._batch_delay:
                return Hold("batch_delay", self._batch_size, len(waiting))
        newcomers = [first] if self._batching == "sequential" else waiting
        self._let_in = {sequence.request.arrival_number for sequence in newcomers}
        return None

    def batch_is_full(self) -> None:
        """One that was let in finds no slot or no memory: a batch that has to be complete leaves
        without it.
        """
        if self._batching != "continuous":
            self._let_in = set()


def refuse_if_too_large(request: Request, manager: KVCacheManager, max_model_len: int) -> None:
    """Raise `RequestTooLargeError` if the KV cache could not hold `request` even alone.

    Admitting it would hang the request and, since nobody overtakes, everyone behind it.
    """
    params = request.params
    prompt, output = len(request.prompt_token_ids), params.max_tokens
    # The last token is sampled and never computed, so it needs no room.
    num_blocks = manager.num_blocks_for(min(prompt + output, max_model_len) - 1)
    # Samples share the full blocks of the prompt; what comes after each has to itself. Beams wait
    # for one another, so all must fit at once, even where a preemption has cost them their sharing.
    num_shared = 0 if params.use_beam_search else prompt // manager.block_size
    need = num_shared + params.num_sequences * (num_blocks - num_shared)
    have = len(manager.pool.blocks)
    if need > have:
        samples = (
            f" in each of {params.num_sequences} sequences" if params.num_sequences > 1 else ""
        )
        raise RequestTooLargeError(
            f"Request {request.request_id!r} needs up to {need} KV cache blocks ({prompt} prompt"
            f" and {output} output tokens{samples}, {manager.block_size} a block) and the cache has"
            f" {have}: shorten the prompt, lower max_tokens, or use an engine with more blocks"
            " (num_gpu_blocks_override, kv_cache_memory_bytes)."
        )
