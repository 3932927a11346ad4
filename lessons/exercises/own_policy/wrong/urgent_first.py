"""A less urgent request can wait until no urgent one is left."""

from minivllm.core.request import Sequence
from minivllm.lessons.exercises.own_policy import policy as engine

HINT = "Urgent requests keep coming for ever. When is it the turn of another one?"


class OwnPolicy(engine.OwnPolicy):
    @staticmethod
    def key(sequence: Sequence) -> tuple[float, ...]:
        request = sequence.request
        return request.priority, request.arrival_number, sequence.index
