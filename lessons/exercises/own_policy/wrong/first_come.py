"""First come, first served is the fairest, so it is the best."""

from minivllm.core.request import Sequence
from minivllm.lessons.exercises.own_policy import policy as engine

HINT = "One document is at the head of the queue, and ten chats are behind it. Who pays?"


class OwnPolicy(engine.OwnPolicy):
    @staticmethod
    def key(sequence: Sequence) -> tuple[float, ...]:
        request = sequence.request
        return request.arrival_number, sequence.index

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        return running[-1]
