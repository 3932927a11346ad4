"""Keys and values are stored like weights."""

from minivllm.lessons.sketches.step_limits import ModelSizes

HINT = (
    "The weights of this model may have 4 bits. Which field has the bytes of a number in the cache?"
)


def kv_bytes_per_token(model: ModelSizes) -> int:
    return int(2 * model.num_layers * model.num_kv_heads * model.head_size * model.bytes_per_weight)
