"""Each token reads all weights."""

from minivllm.lessons.sketches.step_limits import ModelSizes, StepWork, kv_bytes_per_token

HINT = "The weights are in registers when the second token comes. Is this not why batches pay?"


def bytes_read(model: ModelSizes, work: StepWork) -> float:
    return work.num_tokens * model.weight_bytes + work.num_kv_tokens * kv_bytes_per_token(model)
