"""Decode steps wait for bytes, always."""

from minivllm.lessons.sketches.step_limits import (
    Limit,
    MachineRates,
    ModelSizes,
    num_sequences_that_fit,
)

HINT = "A batch of 64 does 64 times the operations. How many more bytes does it read?"


def limit_of(model: ModelSizes, machine: MachineRates, batch: int, context: int) -> Limit:
    if batch > num_sequences_that_fit(model, machine, context):
        return "capacity"
    return "bandwidth"
