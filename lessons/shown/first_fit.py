"""`FirstFit`: contiguous reservations of different sizes, on paper, for lesson 3.

The engine's own baseline, `minivllm/core/contiguous.py`, reserves the same for every request, so
its free memory always consists of whole reservations and a remainder. Servers that reserved what
each request asked for had gaps of all sizes.
"""

_COLUMN = 4
"""Slots for each character of the drawing."""


class FirstFit:
    def __init__(self, num_slots: int) -> None:
        self.owners: list[str] = [""] * num_slots
        """For each slot, who reserved it."""

    def reserve(self, name: str, size: int) -> bool:
        """Reserve the first run of free slots that is long enough; False if there is none."""
        for first in range(len(self.owners) - size + 1):
            if not any(self.owners[first : first + size]):
                self.owners[first : first + size] = [name] * size
                return True
        return False

    def free(self, name: str) -> None:
        self.owners = ["" if owner == name else owner for owner in self.owners]

    @property
    def num_free(self) -> int:
        return self.owners.count("")

    @property
    def longest_run(self) -> int:
        """Length of the longest run of free slots."""
        taken = "".join("x" if owner else " " for owner in self.owners)
        return max(map(len, taken.split("x")))

    def drawn(self) -> str:
        """The memory from its first slot to its last: initials, and dots for free slots."""
        return "".join(owner[:1] or "·" for owner in self.owners[::_COLUMN])
