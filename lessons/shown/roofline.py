"""How fast a decode can be at best: bytes that a pass must read, over the bytes that a device can
move.

Counted from a model's own sizes. The easy thing to get wrong is the embedding table: a pass reads
one row of it for each token, so it does not count, unless the model uses the same table again as
its last layer.
"""

from dataclasses import dataclass

from minivllm.runtime.model.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class Device:
    """What its maker's data sheet says."""

    name: str
    bytes_per_second: float
    operations_per_second: float
    """Of dense matrix arithmetic in bfloat16; a multiplication and an addition are two."""
    num_processors: int

    @property
    def operations_per_byte(self) -> float:
        """What it could compute while it moves one byte."""
        return self.operations_per_second / self.bytes_per_second


H100 = Device("H100", bytes_per_second=3.35e12, operations_per_second=989e12, num_processors=132)
"""NVIDIA H100 SXM, 80 GB."""


def weights_per_pass(config: ModelConfig) -> int:
    """How many weights every pass of the model multiplies with, however many tokens are in it."""
    hidden, heads, kv_heads = (
        config.hidden_size,
        config.num_attention_heads,
        config.num_key_value_heads,
    )
    attention = hidden * config.head_size * (2 * heads + 2 * kv_heads)
    mlp = 3 * hidden * config.intermediate_size
    return config.num_hidden_layers * (attention + mlp) + config.vocab_size * hidden


def operations_per_byte(num_tokens: int, bytes_per_weight: int) -> float:
    """Arithmetic for each byte of weights that is read, when one pass serves so many tokens."""
    return 2 * num_tokens / bytes_per_weight
