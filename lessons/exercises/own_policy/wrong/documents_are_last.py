"""Nobody waits for a long document, so all shorter prompts go first."""

from minivllm.lessons.exercises.own_policy import policy as engine

HINT = "Chats keep coming. After how many of them is it the turn of a document of 100 tokens?"


class OwnPolicy(engine.OwnPolicy):
    @staticmethod
    def key(sequence):
        number = sequence.request.arrival_number
        return number + 10**6 * (sequence.num_prompt_tokens >= 100), number, sequence.index
