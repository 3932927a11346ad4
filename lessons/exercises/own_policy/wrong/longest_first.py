"""The longest prompts first, so that they are out of the way."""

from minivllm.core.request import Sequence
from minivllm.lessons.exercises.own_policy import policy as engine

HINT = "While the long prompt is computed, how many others could have been served?"


class OwnPolicy(engine.OwnPolicy):
    @staticmethod
    def key(sequence: Sequence) -> tuple[float, ...]:
        request = sequence.request
        return (
            request.arrival_number - sequence.num_prompt_tokens / 10,
            request.arrival_number,
            sequence.index,
        )
