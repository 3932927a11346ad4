"""A weight is one operation."""

from minivllm.lessons.sketches.step_limits import ModelSizes, StepWork

HINT = "The number is multiplied by the weight. And what happens to the product?"


def operations(model: ModelSizes, work: StepWork) -> int:
    return model.num_weights * work.num_tokens
