"""The operations depend on how the weights are stored."""

from minivllm.lessons.sketches.step_limits import ModelSizes, StepWork

HINT = "A weight of 4 bits is unpacked first, and then it is one factor. Are there fewer products?"


def operations(model: ModelSizes, work: StepWork) -> int:
    return int(2 * model.weight_bytes * work.num_tokens)
