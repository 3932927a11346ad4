"""Only weights count as bytes."""

from minivllm.lessons.sketches.step_limits import ModelSizes, StepWork, operations

HINT = "With long contexts, the cache is most of what a step reads. Does batching help there?"


def arithmetic_intensity(model: ModelSizes, work: StepWork) -> float:
    return operations(model, work) / model.weight_bytes
