"""Memory limits speed, and not the number of sequences."""

from minivllm.lessons.sketches.step_limits import (
    Limit,
    MachineRates,
    ModelSizes,
    arithmetic_intensity,
    decode_work,
)

HINT = "Where are the keys and values of the last sequence of this batch?"


def limit_of(model: ModelSizes, machine: MachineRates, batch: int, context: int) -> Limit:
    balance = machine.operations_per_second / machine.bytes_per_second
    intensity = arithmetic_intensity(model, decode_work(batch, context))
    return "bandwidth" if intensity < balance else "arithmetic"
