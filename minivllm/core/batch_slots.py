"""`BatchSlots`: the rows of the batch, and who has which.

A running sequence has one slot, and while a request has sequences to come that will be forked,
slots are kept for them too: without that, an arrival could take the row that a fork needs, and
forks cannot wait. For samples that is until the prompt's end. Beams fork and die at every step, so
a search keeps as many slots as it is wide, from its first step to its last, whatever number of
beams is alive.

The easy thing to get wrong is to whom a kept slot belongs: to the request, not to the sequence that
came first. Any beam may fork next. The slots are kept while at least one of the request's sequences
runs.

The number of slots is settled when the engine is built, for the runner has a row for each; `limit`
may be lower and may change between two steps. Nobody loses a slot by that: until as many are back
as are too many, there are none to give.

The lowest free slot is taken first, so that the batch stays dense at its head and a view of it
stays quiet.
"""

from heapq import heapify, heappop, heappush

from minivllm.core.request import Request, Sequence


class BatchSlots:
    """Gives slots to sequences and takes them back."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.limit = num_slots
        """How many may be taken or kept at once, from 1 to `num_slots`: the engine's `max_num_seqs`
        as it is now.
        """
        self._free = list(range(num_slots))  # a heap

    @property
    def free(self) -> list[int]:
        """Slots that nobody has and that are kept for nobody."""
        return sorted(self._free)

    @property
    def num_free(self) -> int:
        """How many may still be given out."""
        return max(0, len(self._free) - (self.num_slots - self.limit))

    @staticmethod
    def num_needed(request: Request) -> int:
        """Slots that one more sequence of `request` takes: its own, and those of the forks to come
        if none are kept yet.
        """
        return 1 + request.num_unforked - len(request.kept_slots)

    def take(self, sequence: Sequence) -> None:
        """Give `sequence` a slot, and have slots kept for the forks of its request."""
        request = sequence.request
        sequence.slot = heappop(self._free)
        while len(request.kept_slots) < request.num_unforked:
            heappush(request.kept_slots, heappop(self._free))

    def take_for_fork(self, child: Sequence) -> None:
        """Give `child` a slot that was kept for it."""
        child.slot = heappop(child.request.kept_slots)
        child.request.num_unforked -= 1

    def release(self, sequence: Sequence, for_fork: bool = False) -> None:
        """Take back the slot of `sequence`, which no longer runs; `for_fork`: another one will be
        forked in its place.
        """
        request = sequence.request
        heappush(request.kept_slots if for_fork else self._free, sequence.slot)
        request.num_unforked += for_fork
        sequence.slot = None
        if not any(sibling.slot is not None for sibling in request.sequences):
            self._free += request.kept_slots
            heapify(self._free)
            request.kept_slots.clear()
