"""The balance is one operation for a byte."""

from minivllm.lessons.sketches.step_limits import (
    Limit,
    MachineRates,
    ModelSizes,
    arithmetic_intensity,
    decode_work,
    num_sequences_that_fit,
)

HINT = "An H100 can do 295 operations while it moves a byte. Where is the balance of this machine?"


def limit_of(model: ModelSizes, machine: MachineRates, batch: int, context: int) -> Limit:
    if batch > num_sequences_that_fit(model, machine, context):
        return "capacity"
    intensity = arithmetic_intensity(model, decode_work(batch, context))
    return "bandwidth" if intensity < 1 else "arithmetic"
