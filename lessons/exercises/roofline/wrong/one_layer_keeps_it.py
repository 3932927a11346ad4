"""The KV cache is one for the whole model."""

from minivllm.lessons.sketches.step_limits import ModelSizes

HINT = "Each layer computes its own keys and values. How many layers are there?"


def kv_bytes_per_token(model: ModelSizes) -> int:
    return 2 * model.num_kv_heads * model.head_size * model.bytes_per_number
