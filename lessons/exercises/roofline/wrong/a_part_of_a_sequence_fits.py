"""The last sequence fits in part."""

from minivllm.lessons.sketches.step_limits import MachineRates, ModelSizes, kv_bytes_per_token

HINT = "Room for 3.9 sequences of full length: how many can reach that length?"


def num_sequences_that_fit(model: ModelSizes, machine: MachineRates, context: int) -> int:
    free = max(machine.memory_bytes - model.weight_bytes, 0)
    return int(-(-free // (context * kv_bytes_per_token(model))))
