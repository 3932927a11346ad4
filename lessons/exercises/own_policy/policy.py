"""A scheduling policy of your own: who is admitted next, and who is preempted.

The scheduler asks the policy two questions. It never asks what a token should be, and a policy
never looks at memory or at the token budget:

    peek()                       whose turn is it? (asked when there are slots, tokens and blocks)
    choose_victim(running)       a running sequence needs a block and none is free: who gives way?

What a policy can know: the length of a prompt, the priority (lower is more urgent), the order of
arrival, how many tokens were written and computed, and how often a sequence was preempted. What
nobody knows is how long an answer will be: `max_tokens` is only a limit.
"""

from bisect import bisect_right
from collections.abc import Iterator

from minivllm.core.admission import RequestQueue
from minivllm.core.request import Sequence


class OwnPolicy(RequestQueue):
    """Keeps the waiting sequences in the order of `key`, the smallest first."""

    def __init__(self) -> None:
        self._queue: list[Sequence] = []

    @staticmethod
    def key(sequence: Sequence) -> tuple[float, int, int]:
        """Return the place of a waiting sequence in the order, as numbers to compare.

        The key is computed when the sequence joins the queue, and must not change while it waits.
        Two sequences must not have equal keys: end with `sequence.request.arrival_number` and
        `sequence.index`.
        """
        # A long or less urgent request gives way to a number of later ones, and to no more.
        request = sequence.request
        places = sequence.num_prompt_tokens / 10 + request.priority * 26
        return request.arrival_number + places, request.arrival_number, sequence.index

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        """Choose one of the running sequences to preempt; they are in the order of admission.

        It loses its blocks, waits for its turn again, and computes its tokens again.
        """
        # Nobody waits for a document. Do not stop the same answer again and again.
        return max(
            running,
            key=lambda victim: (victim.request.priority, -victim.num_preemptions, self.key(victim)),
        )

    def add(self, sequence: Sequence) -> int:
        position = bisect_right(self._queue, self.key(sequence), key=self.key)
        self._queue.insert(position, sequence)
        return position

    def add_preempted(self, sequence: Sequence) -> int:
        return self.add(sequence)

    def remove(self, sequence: Sequence) -> None:
        self._queue.remove(sequence)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._queue)

    def __len__(self) -> int:
        return len(self._queue)
