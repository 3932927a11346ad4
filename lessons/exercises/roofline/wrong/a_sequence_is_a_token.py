"""A sequence needs room for one token."""

from minivllm.lessons.sketches.step_limits import MachineRates, ModelSizes, kv_bytes_per_token

HINT = "The sequence attends to all tokens before. How many of them have keys and values?"


def num_sequences_that_fit(model: ModelSizes, machine: MachineRates, context: int) -> int:
    free = max(machine.memory_bytes - model.weight_bytes, 0)
    return int(free // kv_bytes_per_token(model))
