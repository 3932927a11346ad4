"""`BatchSlots`: the rows of the batch, and who has which.

A running sequence has one slot, and a request that will be forked holds one more for each sequence to come:
without that, an arrival could take the row that a fork needs, and forks cannot wait. The lowest free slot is
taken first, so that the batch stays dense at its head and a view of it stays quiet.
"""

from heapq import heappop, heappush

from minivllm.core.request import Sequence


class BatchSlots:
    """Gives slots to sequences and takes them back."""

    def __init__(self, max_num_seqs: int) -> None:
        self._free = list(range(max_num_seqs))  # a heap

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self, sequence: Sequence, num_forks: int) -> None:
        """Give `sequence` a slot, and keep `num_forks` for those that will be forked from it."""
        sequence.slot = heappop(self._free)
        sequence.reserved_slots = [heappop(self._free) for _ in range(num_forks)]

    def take_for_fork(self, child: Sequence, parent: Sequence) -> None:
        """Give `child` a slot that its parent has kept, or a free one."""
        child.slot = parent.reserved_slots.pop(0) if parent.reserved_slots else heappop(self._free)

    def release(self, sequence: Sequence) -> None:
        """Take back all that `sequence` has."""
        for slot in (sequence.slot, *sequence.reserved_slots):
            heappush(self._free, slot)
        sequence.slot = None
        sequence.reserved_slots = []
