"""A step computes one token."""

from minivllm.lessons.sketches.step_limits import StepWork

HINT = "The batch has several sequences. How many of them wait in this step?"


def decode_work(batch: int, context: int) -> StepWork:
    return StepWork(1, batch * context)
