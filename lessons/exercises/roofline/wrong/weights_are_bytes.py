"""A weight is a byte."""

from minivllm.lessons.sketches.step_limits import ModelSizes, StepWork, kv_bytes_per_token

HINT = "In bfloat16, how many bytes has a weight?"


def bytes_read(model: ModelSizes, work: StepWork) -> float:
    return model.num_weights + work.num_kv_tokens * kv_bytes_per_token(model)
