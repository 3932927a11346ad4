"""The KV cache saves reading."""

from minivllm.lessons.sketches.step_limits import ModelSizes, StepWork

HINT = "It saves computing. How does the query reach the keys in the cache?"


def bytes_read(model: ModelSizes, work: StepWork) -> float:
    return model.weight_bytes
