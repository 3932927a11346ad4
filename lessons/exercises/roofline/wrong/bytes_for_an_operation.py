"""The intensity is how many bytes an operation needs."""

from minivllm.lessons.sketches.step_limits import ModelSizes, StepWork, bytes_read, operations

HINT = (
    "Is a step of many tokens intense in arithmetic, or in reading? Your number falls with tokens."
)


def arithmetic_intensity(model: ModelSizes, work: StepWork) -> float:
    return bytes_read(model, work) / operations(model, work)
