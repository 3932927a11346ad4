"""Admission: in which order sequences wait, when the first may join the batch, and in which row.

    RequestQueue     the order of waiting, and which running sequence is preempted
    AdmissionPolicy  when the first waiting sequence may join, apart from memory, slots and budget
    BatchSlots       the rows of the batch

To add a policy, add a queue here and its name in `minivllm.config.SchedulingPolicy`, or give
`LLMEngine` an empty queue of your own (`waiting`).

Source: vLLM `vllm/v1/core/sched/request_queue.py`.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, MutableSequence
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import NamedTuple

from minivllm.config import Batching
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.errors import RequestTooLargeError
from minivllm.events.types import DeferReason


class RequestQueue(ABC):
    """Holds the waiting sequences, and chooses a victim among the running sequences.

        fcfs      first come, first served; the victim is the one admitted last
        priority  lowest `priority` number first, then arrival; the victim is the last in this order

    A sequence that waits for its grammar or for a load keeps its place, and those behind it pass.
    With fcfs, a preempted sequence goes before all that arrived later; with priority, to its usual
    place.
    """

    _queue: MutableSequence[Sequence]
    """The waiting sequences in order; each class creates its own."""

    @abstractmethod
    def add(self, sequence: Sequence) -> int:
        """Add a new sequence; return its position (0: it is next)."""

    def add_preempted(self, sequence: Sequence) -> int:
        """Add a preempted sequence; return its position. By default, it gets its usual place."""
        return self.add(sequence)

    def peek(self) -> Sequence:
        """Return the next sequence that is not blocked; the first of all if all are."""
        first = next(iter(self))
        if not first.is_blocked:  # nearly always
            return first
        return next((sequence for sequence in self if not sequence.is_blocked), first)

    def pop(self) -> Sequence:
        """Remove and return the next sequence."""
        sequence = self.peek()
        self.remove(sequence)
        return sequence

    def remove(self, sequence: Sequence) -> None:
        """Remove `sequence` from any position."""
        self._queue.remove(sequence)

    @abstractmethod
    def choose_victim(self, running: list[Sequence]) -> Sequence:
        """Choose the running sequence to preempt; `running` is in the order of admission."""

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._queue)

    def __len__(self) -> int:
        return len(self._queue)


class FCFSRequestQueue(RequestQueue):
    def __init__(self) -> None:
        self._queue = deque()

    def add(self, sequence: Sequence) -> int:
        self._queue.append(sequence)
        return len(self._queue) - 1

    def add_preempted(self, sequence: Sequence) -> int:
        # Older sequences that wait for a load or a grammar have been passed: it stays behind them.
        number = sequence.request.arrival_number
        older = takewhile(lambda other: other.request.arrival_number < number, self._queue)
        position = sum(1 for _ in older)
        self._queue.insert(position, sequence)
        return position

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        return running[-1]


class PriorityRequestQueue(RequestQueue):
    """A sorted list and not a heap, so that views can show each sequence's position."""

    def __init__(self) -> None:
        self._queue = []

    @staticmethod
    def _key(sequence: Sequence) -> tuple[int, int, int]:
        return sequence.request.priority, sequence.request.arrival_number, sequence.index

    def add(self, sequence: Sequence) -> int:
        position = bisect_right(self._queue, self._key(sequence), key=self._key)
        self._queue.insert(position, sequence)
        return position

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        return max(running, key=self._key)


def create_request_queue(policy: str) -> RequestQueue:
    """Create the waiting queue for `policy`, a value of `EngineConfig.scheduling_policy`."""
    return {"fcfs": FCFSRequestQueue, "priority": PriorityRequestQueue}[policy]()


class Hold(NamedTuple):
    reason: DeferReason
    need: int
    free: int


class AdmissionPolicy:
    """When a waiting sequence may join the batch, apart from memory, slots and budget.

        continuous  at every step (the default)
        static      when all sequences of the last batch have ended
        sequential  like static, with batches of one request

    Static and sequential are baselines: earlier servers worked in these ways. With `batch_delay`,
    the first sequence waits until `batch_size` sequences wait or the oldest has waited
    `batch_delay` seconds. An admitted batch may need several steps to enter, so its requests are
    not held again, and neither is a preempted sequence. A batch that cannot advance (beams that
    wait for a preempted sibling) would never end, so other requests are then admitted.
    """

    def __init__(self, batching: Batching, batch_delay: float, batch_size: int) -> None:
        self._batching = batching
        self._batch_delay, self._batch_size = batch_delay, batch_size
        self._let_in: set[int] = set()
        """Arrival numbers of the requests in the batch that was let in last."""

    def hold(
        self, waiting: RequestQueue, running: list[Sequence], nothing_scheduled: bool, now: float
    ) -> Hold | None:
        """Return why the first waiting sequence may not be admitted, or let its batch in and return
        None. `now`: seconds, as `arrival_time`.
        """
        first = waiting.peek()
        if first.is_blocked:
            return Hold(*first.deferred)
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


class BatchSlots:
    """Assigns the rows of the batch to running sequences.

    A running sequence has one slot. A request that will fork later also keeps slots for its forks,
    because a fork cannot wait:

        n = 3    admitted: 1 slot taken, 2 kept    prompt done: both forks take a kept slot

    A beam search forks and prunes at every step, so it holds `width` slots until it ends. Kept
    slots belong to the request, and become free when none of its sequences runs.

    `limit` may change between steps; a lower limit takes no slot from a sequence. The lowest free
    slot is taken first.
    """

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.limit = num_slots
        """How many slots may be taken or kept: the current `max_num_seqs`, 1 to `num_slots`."""
        self._free = list(range(num_slots))  # a heap

    @property
    def free(self) -> list[int]:
        """Slots that are neither taken nor kept, in ascending order."""
        return sorted(self._free)

    @property
    def num_free(self) -> int:
        return max(0, len(self._free) - (self.num_slots - self.limit))

    @staticmethod
    def num_needed(request: Request) -> int:
        """Number of slots for one more sequence of `request` and for the forks still to come."""
        return 1 + request.num_unforked - len(request.kept_slots)

    def take(self, sequence: Sequence) -> None:
        """Give `sequence` a slot, and give its request the slots to keep for later forks."""
        request = sequence.request
        sequence.slot = heappop(self._free)
        while len(request.kept_slots) < request.num_unforked:
            heappush(request.kept_slots, heappop(self._free))

    def take_for_fork(self, child: Sequence) -> None:
        """Give `child` a slot that its request has kept."""
        child.slot = heappop(child.request.kept_slots)
        child.request.num_unforked -= 1

    def release(self, sequence: Sequence, for_fork: bool = False) -> None:
        """Take back the slot of a sequence that stops running; `for_fork`: its request keeps it."""
        request = sequence.request
        heappush(request.kept_slots if for_fork else self._free, sequence.slot)
        request.num_unforked += for_fork
        sequence.slot = None
        if not any(sibling.slot is not None for sibling in request.sequences):
            self._free += request.kept_slots
            heapify(self._free)
            request.kept_slots.clear()


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
        is_cut = prompt + output > max_model_len
        cut = f", cut at max_model_len {max_model_len}" if is_cut else ""
        in_each = f" in each of {params.num_sequences} sequences" * (params.num_sequences > 1)
        raise RequestTooLargeError(
            f"Request {request.request_id!r} needs up to {need} KV cache blocks ({prompt} prompt"
            f" and {output} output tokens{cut}{in_each}, {manager.block_size} per block), but the cache"
            f" has {have}: shorten the prompt, lower max_tokens, or give the engine more blocks"
            " (--num-gpu-blocks-override)."
        )
