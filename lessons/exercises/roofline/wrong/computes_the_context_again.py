"""A decode step computes all tokens of its sequences."""

from minivllm.lessons.sketches.step_limits import StepWork

HINT = "That is what a model without a KV cache does. What is new in this step?"


def decode_work(batch: int, context: int) -> StepWork:
    return StepWork(batch * context, batch * context)
