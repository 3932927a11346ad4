"""The two times add up."""

from minivllm.lessons.sketches.step_limits import (
    MachineRates,
    ModelSizes,
    StepWork,
    bytes_read,
    operations,
)

HINT = "While one part is multiplied, the next one is read. What is the total of two that overlap?"


def shortest_step(model: ModelSizes, machine: MachineRates, work: StepWork) -> float:
    return (
        bytes_read(model, work) / machine.bytes_per_second
        + operations(model, work) / machine.operations_per_second
    )
