"""A step reads the keys and values of its new tokens."""

from minivllm.lessons.sketches.step_limits import StepWork

HINT = "The new token attends to all tokens before it. Where are their keys and values?"


def decode_work(batch: int, context: int) -> StepWork:
    return StepWork(batch, batch)
