"""A counter in the class is as good as one in the object."""

from minivllm.core.request import Sequence
from minivllm.lessons.exercises.own_policy import policy as engine

HINT = "Which value has your counter when a second queue is made?"


class OwnPolicy(engine.OwnPolicy):
    num_added = 0

    def add(self, sequence: Sequence) -> int:
        OwnPolicy.num_added += 1
        if OwnPolicy.num_added % 3:
            return super().add(sequence)
        self._queue.insert(0, sequence)  # every third newcomer is lucky
        return 0
