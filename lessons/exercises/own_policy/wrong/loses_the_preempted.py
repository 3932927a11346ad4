"""The scheduler keeps a preempted sequence by itself."""

from minivllm.core.request import Sequence
from minivllm.lessons.exercises.own_policy import policy as engine

HINT = "A sequence was preempted. In which list is it now?"


class OwnPolicy(engine.OwnPolicy):
    def add_preempted(self, sequence: Sequence) -> int:
        return 0
