"""Scheduling policies: in which order sequences wait, and which running one is preempted.

    fcfs      first come, first served; the victim is the newest running sequence
    priority  lowest `priority` number first, then arrival; the victim is the last in this order

A sequence whose grammar is not compiled yet keeps its place, and the sequences behind it pass.

A policy never looks at memory. With fcfs, a preempted sequence goes to the front of the queue; with
priority, to its usual place. The priority queue is a sorted list and not a heap, so that views can
show each sequence's position.

To add a policy, add a class here and its name in `minivllm.config.SchedulingPolicy`, or give
`LLMEngine` an empty queue of your own (`waiting`).

Source: vLLM `vllm/v1/core/sched/request_queue.py`.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator

from minivllm.core.request import Sequence


class RequestQueue(ABC):
    """Holds the waiting sequences, and chooses a victim among the running sequences."""

    @abstractmethod
    def add(self, sequence: Sequence) -> int:
        """Add a new sequence; return its position (0: it is next)."""

    @abstractmethod
    def add_preempted(self, sequence: Sequence) -> int:
        """Add a preempted sequence; return its position (0: it is next)."""

    def peek(self) -> Sequence:
        """Return the next sequence without removing it. If all wait for their grammars, return the
        first.
        """
        first = next(iter(self))
        if not first.request.awaits_grammar:  # nearly always
            return first
        return next((one for one in self if not one.request.awaits_grammar), first)

    def pop(self) -> Sequence:
        """Remove and return the next sequence."""
        sequence = self.peek()
        self.remove(sequence)
        return sequence

    @abstractmethod
    def remove(self, sequence: Sequence) -> None:
        """Remove `sequence` from any position."""

    @abstractmethod
    def choose_victim(self, running: list[Sequence]) -> Sequence:
        """Choose the running sequence to preempt; `running` is in the order of admission."""

    @abstractmethod
    def __iter__(self) -> Iterator[Sequence]: ...

    @abstractmethod
    def __len__(self) -> int: ...


class FCFSRequestQueue(RequestQueue):
    def __init__(self) -> None:
        self._queue: deque[Sequence] = deque()

    def add(self, sequence: Sequence) -> int:
        self._queue.append(sequence)
        return len(self._queue) - 1

    def add_preempted(self, sequence: Sequence) -> int:
        self._queue.appendleft(sequence)
        return 0

    def remove(self, sequence: Sequence) -> None:
        self._queue.remove(sequence)

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        return running[-1]

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._queue)

    def __len__(self) -> int:
        return len(self._queue)


class PriorityRequestQueue(RequestQueue):
    def __init__(self) -> None:
        self._queue: list[Sequence] = []

    @staticmethod
    def _key(sequence: Sequence) -> tuple[int, int, int]:
        return sequence.request.priority, sequence.request.arrival_number, sequence.index

    def add(self, sequence: Sequence) -> int:
        position = bisect_right(self._queue, self._key(sequence), key=self._key)
        self._queue.insert(position, sequence)
        return position

    def add_preempted(self, sequence: Sequence) -> int:
        return self.add(sequence)

    def remove(self, sequence: Sequence) -> None:
        self._queue.remove(sequence)

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        return max(running, key=self._key)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._queue)

    def __len__(self) -> int:
        return len(self._queue)


def create_request_queue(policy: str) -> RequestQueue:
    """Create the waiting queue for `policy`, a value of `EngineConfig.scheduling_policy`."""
    return {"fcfs": FCFSRequestQueue, "priority": PriorityRequestQueue}[policy]()
