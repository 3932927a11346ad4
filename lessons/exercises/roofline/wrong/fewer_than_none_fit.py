"""If the weights do not fit, the number is negative."""

from minivllm.lessons.sketches.step_limits import MachineRates, ModelSizes, kv_bytes_per_token

HINT = "What is the least number of sequences that can run?"


def num_sequences_that_fit(model: ModelSizes, machine: MachineRates, context: int) -> int:
    free = machine.memory_bytes - model.weight_bytes
    return int(free // (context * kv_bytes_per_token(model)))
