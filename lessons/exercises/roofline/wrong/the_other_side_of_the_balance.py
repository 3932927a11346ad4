"""Where there are few operations for a byte, arithmetic is the limit."""

from minivllm.lessons.sketches.step_limits import (
    Limit,
    MachineRates,
    ModelSizes,
    arithmetic_intensity,
    decode_work,
    num_sequences_that_fit,
)

HINT = "A machine that can do 16 operations for each byte gets 2 to do. What does it wait for?"


def limit_of(model: ModelSizes, machine: MachineRates, batch: int, context: int) -> Limit:
    if batch > num_sequences_that_fit(model, machine, context):
        return "capacity"
    balance = machine.operations_per_second / machine.bytes_per_second
    intensity = arithmetic_intensity(model, decode_work(batch, context))
    return "arithmetic" if intensity < balance else "bandwidth"
