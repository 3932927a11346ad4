"""The memory is there for the cache."""

from minivllm.lessons.sketches.step_limits import MachineRates, ModelSizes, kv_bytes_per_token

HINT = "A model of 16 GB on a card of 24 GB: how much is left for keys and values?"


def num_sequences_that_fit(model: ModelSizes, machine: MachineRates, context: int) -> int:
    return int(machine.memory_bytes // (context * kv_bytes_per_token(model)))
