"""Each query head has keys and values of its own."""

from minivllm.lessons.sketches.step_limits import ModelSizes

HINT = "Several query heads share a key/value head. That is why caches of new models are small."


def kv_bytes_per_token(model: ModelSizes) -> int:
    return 2 * model.num_layers * model.num_heads * model.head_size * model.bytes_per_number
