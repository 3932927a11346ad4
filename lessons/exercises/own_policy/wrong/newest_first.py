"""The newest first: its user is still there, and the others have got used to waiting."""

from minivllm.core.request import Sequence
from minivllm.lessons.exercises.own_policy import policy as engine

HINT = "Who came first, and how many overtake that request?"


class OwnPolicy(engine.OwnPolicy):
    @staticmethod
    def key(sequence: Sequence) -> tuple[float, ...]:
        request = sequence.request
        return -request.arrival_number, sequence.index
