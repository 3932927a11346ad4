"""A higher priority number is more urgent."""

from minivllm.core.request import Sequence
from minivllm.lessons.exercises.own_policy import policy as engine

HINT = "Which of two requests is first, the one with priority 0 or with priority 1?"


class OwnPolicy(engine.OwnPolicy):
    @staticmethod
    def key(sequence: Sequence) -> tuple[float, ...]:
        request = sequence.request
        return (
            request.arrival_number - 26 * request.priority,
            request.arrival_number,
            sequence.index,
        )
