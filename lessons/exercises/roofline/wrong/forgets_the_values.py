"""A token keeps its key."""

from minivllm.lessons.sketches.step_limits import ModelSizes

HINT = "The query is compared with the keys. What is it that attention then adds up?"


def kv_bytes_per_token(model: ModelSizes) -> int:
    return model.num_layers * model.num_kv_heads * model.head_size * model.bytes_per_number
