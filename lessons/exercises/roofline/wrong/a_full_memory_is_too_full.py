"""A batch that fills the memory does not fit."""

from minivllm.lessons.sketches.step_limits import (
    Limit,
    MachineRates,
    ModelSizes,
    arithmetic_intensity,
    decode_work,
    num_sequences_that_fit,
)

HINT = "If three sequences fit, is a batch of three too large?"


def limit_of(model: ModelSizes, machine: MachineRates, batch: int, context: int) -> Limit:
    if batch >= num_sequences_that_fit(model, machine, context):
        return "capacity"
    balance = machine.operations_per_second / machine.bytes_per_second
    intensity = arithmetic_intensity(model, decode_work(batch, context))
    return "bandwidth" if intensity < balance else "arithmetic"
