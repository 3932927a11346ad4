"""The one that runs the longest has had the most, so it gives way."""

from minivllm.core.request import Sequence
from minivllm.lessons.exercises.own_policy import policy as engine

HINT = "How many tokens must the victim compute again, and how soon would it have ended?"


class OwnPolicy(engine.OwnPolicy):
    @staticmethod
    def key(sequence: Sequence) -> tuple[float, ...]:
        request = sequence.request
        return request.arrival_number, sequence.index

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        return running[0]
