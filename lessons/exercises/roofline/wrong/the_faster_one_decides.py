"""When the first of the two is over, the step is over."""

from minivllm.lessons.sketches.step_limits import (
    MachineRates,
    ModelSizes,
    StepWork,
    bytes_read,
    operations,
)

HINT = "The numbers are read, but the products are not computed yet. Is there a next token?"


def shortest_step(model: ModelSizes, machine: MachineRates, work: StepWork) -> float:
    return min(
        bytes_read(model, work) / machine.bytes_per_second,
        operations(model, work) / machine.operations_per_second,
    )
