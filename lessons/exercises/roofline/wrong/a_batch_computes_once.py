"""A batch computes as much as one sequence."""

from minivllm.lessons.sketches.step_limits import ModelSizes, StepWork

HINT = "It reads as many weights. But each token has other numbers to multiply them by."


def operations(model: ModelSizes, work: StepWork) -> int:
    return 2 * model.num_weights
