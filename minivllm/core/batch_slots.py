"""`BatchSlots`: assigns the rows of the batch to running sequences.

A running sequence has one slot. A request that will fork later also keeps slots for its forks,
because a fork cannot wait:

    n = 3    admitted: 1 slot taken, 2 kept    prompt done: both forks take a kept slot

A beam search forks and prunes at every step, so it holds `width` slots until it ends. Kept slots
belong to the request, since any of its beams may fork next. They become free when none of the
request's sequences runs.

The runner has a row for each slot, so `num_slots` is fixed. `limit` may change between steps; a
lower limit takes no slot from a sequence. The lowest free slot is taken first, so that the taken
rows stay together at the start.
"""

from heapq import heapify, heappop, heappush

from minivllm.core.request import Request, Sequence


class BatchSlots:
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
        """Take back the slot of `sequence`, which no longer runs.

        for_fork: the request keeps the slot for another fork.
        """
        request = sequence.request
        heappush(request.kept_slots if for_fork else self._free, sequence.slot)
        request.num_unforked += for_fork
        sequence.slot = None
        if not any(sibling.slot is not None for sibling in request.sequences):
            self._free += request.kept_slots
            heapify(self._free)
            request.kept_slots.clear()
