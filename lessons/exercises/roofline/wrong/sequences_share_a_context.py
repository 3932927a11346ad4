"""The context is read once for the whole batch."""

from minivllm.lessons.sketches.step_limits import StepWork

HINT = "These sequences have different texts. Can the keys of one be read for another?"


def decode_work(batch: int, context: int) -> StepWork:
    return StepWork(batch, context)
