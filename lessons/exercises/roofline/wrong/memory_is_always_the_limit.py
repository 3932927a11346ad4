"""A step takes as long as its bytes."""

from minivllm.lessons.sketches.step_limits import MachineRates, ModelSizes, StepWork, bytes_read

HINT = "A prompt of a thousand tokens reads hardly more bytes than one token. Is it as fast?"


def shortest_step(model: ModelSizes, machine: MachineRates, work: StepWork) -> float:
    return bytes_read(model, work) / machine.bytes_per_second
