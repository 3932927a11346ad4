"""What a policy decides, as a list that another process can follow.

A score must not depend on what a submission says about itself: its process could also change the
clock or the memory of the engine there. So the child reports decisions alone, and the parent serves
the same traffic by them, on its own engine and clock.
"""

import json
from collections.abc import Iterable, Iterator

import msgspec

from minivllm.core.admission import FCFSRequestQueue, RequestQueue
from minivllm.core.request import Sequence
from minivllm.lessons.checker.policy.traffic import NUM_REQUESTS

MAX_DECISIONS = 100 * NUM_REQUESTS
"""Our own policy needs about ten for each request."""


class Recorder(RequestQueue):
    """Passes every question on to a policy, and records which sequence it chooses.

    Raises `ValueError` for a victim that is not running, and for a change of the list of running
    sequences: that list is the scheduler's own.
    """

    def __init__(self, policy: RequestQueue) -> None:
        self._policy = policy
        self._chosen: list[int] = []

    @property
    def decisions(self) -> str:
        """The arrival numbers of the chosen sequences, in order, as JSON."""
        return json.dumps(self._chosen)

    def _note(self, sequence: Sequence) -> Sequence:
        self._chosen.append(sequence.request.arrival_number)
        return sequence

    def peek(self) -> Sequence:
        return self._note(self._policy.peek())

    def pop(self) -> Sequence:
        return self._note(self._policy.pop())

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        before = list(running)
        victim = self._policy.choose_victim(running)
        if running != before:
            raise ValueError("choose_victim changes `running`, the scheduler's own list")
        if not any(victim is one for one in before):
            raise ValueError("choose_victim returns something that is not in `running`")
        return self._note(victim)

    def add(self, sequence: Sequence) -> int:
        return self._policy.add(sequence)

    def add_preempted(self, sequence: Sequence) -> int:
        return self._policy.add_preempted(sequence)

    def remove(self, sequence: Sequence) -> None:
        self._policy.remove(sequence)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._policy)

    def __len__(self) -> int:
        return len(self._policy)


class Replay(FCFSRequestQueue):
    """Decides as it was recorded. Raises `ValueError` if the decisions do not fit the traffic."""

    def __init__(self, decisions: str) -> None:
        """decisions: as of `Recorder`, but perhaps forged. Raises `ValueError` for other text."""
        try:
            chosen = msgspec.json.decode(decisions, type=list[int])
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
            raise ValueError("they are not a list of arrival numbers") from error
        if len(chosen) > MAX_DECISIONS:
            raise ValueError(f"there are {len(chosen)} of them, more than {MAX_DECISIONS}")
        super().__init__()
        self._chosen = iter(chosen)

    def _next(self, among: Iterable[Sequence]) -> Sequence:
        number = next(self._chosen, None)
        for sequence in among:
            if sequence.request.arrival_number == number:
                return sequence
        raise ValueError(f"request {number} cannot be chosen here")

    def peek(self) -> Sequence:
        return self._next(self)

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        return self._next(running)

    def add_preempted(self, sequence: Sequence) -> int:
        return self.add(sequence)
