"""The shortest possible time of a decode: the bytes that a pass must read, over the bandwidth.

A pass reads only one row of the embedding table per token, so the table does not count. But a table
that is also the last layer (a tied table) counts once, because the last layer reads all of it.
"""

from dataclasses import dataclass

from minivllm.runtime.model.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class Device:
    """The figures are from the manufacturer's data sheet."""

    name: str
    bytes_per_second: float
    operations_per_second: float
    """Dense bfloat16 matrix arithmetic; a multiplication and an addition are two operations."""
    num_processors: int

    @property
    def operations_per_byte(self) -> float:
        """Number of operations that the device could compute while it moves one byte."""
        return self.operations_per_second / self.bytes_per_second


H100 = Device("H100", bytes_per_second=3.35e12, operations_per_second=989e12, num_processors=132)
"""NVIDIA H100 SXM, 80 GB."""


def weights_per_pass(config: ModelConfig) -> int:
    """Number of weights that a pass reads. This does not depend on the pass's number of tokens."""
    hidden, heads, kv_heads = (
        config.hidden_size,
        config.num_attention_heads,
        config.num_key_value_heads,
    )
    attention = hidden * config.head_size * (2 * heads + 2 * kv_heads)
    mlp = 3 * hidden * config.intermediate_size
    return config.num_hidden_layers * (attention + mlp) + config.vocab_size * hidden


def operations_per_byte(num_tokens: int, bytes_per_weight: int) -> float:
    """Operations per byte of weights, if one pass computes this many tokens."""
    return 2 * num_tokens / bytes_per_weight
