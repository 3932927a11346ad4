"""A few places further back are enough for a request that can wait."""

from minivllm.core.request import Sequence
from minivllm.lessons.exercises.own_policy import policy as engine

HINT = "How many chats come while a document is computed? How many places should it give way?"


class OwnPolicy(engine.OwnPolicy):
    @staticmethod
    def key(sequence: Sequence) -> tuple[float, ...]:
        request = sequence.request
        return (
            request.arrival_number + 2.5 * request.priority,
            request.arrival_number,
            sequence.index,
        )

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        return running[-1]
