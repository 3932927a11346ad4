"""Numbers in few bits, in plain Python: a block of Q4_1, and a head in an int8 KV cache.

    weights     32 numbers, here from -0.6 to 0.9
    minimum     -0.6, which is quant 0
    scale       0.1, the size of one step: 15 steps from the smallest to the largest
    quants      the nearest step for each weight, 0 to 15
    read back   the value of that step, at most half a step off

The engine's own versions are fast, and work on tensors: `minivllm/runtime/quantization/formats.py`
for blocks, `quantize_heads` in `kernels/reference_ops.py` for the KV cache. Lesson 13 draws from
this module, and the exercise `few-bits` asks for its functions.

Source: ggml `quantize_row_q4_1_ref`; vLLM `int8_per_token_head`.
"""

import struct
from collections.abc import Sequence as Seq
from typing import NamedTuple

LARGEST_QUANT = 15
"""Four bits: 0 to 15."""
LARGEST_INT8 = 127
"""-127 to 127; -128 is not used, so that a number and its negative have equal steps."""
MIN_SCALE = 1e-6
"""Smallest scale of a head: even zeros can be divided by it."""


class Q4Block(NamedTuple):
    """Weights that share a scale and a minimum; a block of a file has 32."""

    scale: float
    minimum: float
    quants: list[int]


class Int8Head(NamedTuple):
    """The key or the value of one token and one head."""

    scale: float
    numbers: list[int]


def quantize_block(weights: Seq[float]) -> Q4Block:
    """Round each weight to the nearest of 16 values, evenly spaced from the least to the largest.

    If all weights are equal, the scale is 0.0 and all quants are 0.
    """
    minimum = min(weights)
    scale = (max(weights) - minimum) / LARGEST_QUANT
    if scale == 0.0:
        return Q4Block(0.0, minimum, [0] * len(weights))
    return Q4Block(scale, minimum, [round((weight - minimum) / scale) for weight in weights])


def dequantize_block(block: Q4Block) -> list[float]:
    """Return the weights that the block stands for."""
    return [block.scale * quant + block.minimum for quant in block.quants]


def pack_block(block: Q4Block) -> bytes:
    """Return a block of 32 weights as the 20 bytes of a GGUF file.

    The scale and the minimum come first, as float16 (`struct` format `<e`, little-endian). Byte i
    of the other 16 has quant i in its low four bits, and quant i + 16 in its high four bits.
    """
    low, high = block.quants[:16], block.quants[16:]
    pairs = bytes(first | second << 4 for first, second in zip(low, high, strict=True))
    return struct.pack("<ee", block.scale, block.minimum) + pairs


def unpack_block(data: bytes) -> Q4Block:
    """Undo `pack_block`; scale and minimum have been rounded to float16."""
    scale, minimum = struct.unpack("<ee", data[:4])
    pairs = data[4:]
    return Q4Block(scale, minimum, [pair & 15 for pair in pairs] + [pair >> 4 for pair in pairs])


def quantize_head(numbers: Seq[float]) -> Int8Head:
    """Round the numbers of one token and head to whole steps, from -127 to 127.

    There is no minimum: 0.0 stays 0. The scale, the size of a step, makes the number with the
    largest absolute value 127 or -127. It is at least `MIN_SCALE`.
    """
    scale = max(max(map(abs, numbers)) / LARGEST_INT8, MIN_SCALE)
    return Int8Head(scale, [round(number / scale) for number in numbers])


class Int8Cache:
    """Keys (or values) of tokens, in slots that can be written again for another token."""

    def __init__(self, num_slots: int, num_heads: int) -> None:
        self.numbers: list[list[list[int]]] = [
            [[] for _ in range(num_heads)] for _ in range(num_slots)
        ]
        """By slot and head."""
        self.scales = [[MIN_SCALE] * num_heads for _ in range(num_slots)]
        """By slot and head."""

    def write(self, slot: int, heads: Seq[Seq[float]]) -> None:
        """Store a token: one list of numbers for each head. What was in the slot is forgotten.

        All other slots must be read as before: a token's numbers must not depend on the tokens that
        are written later.
        """
        for head, numbers in enumerate(heads):
            self.scales[slot][head], self.numbers[slot][head] = quantize_head(numbers)

    def read(self, slot: int) -> list[list[float]]:
        """Return the token's heads as the attention reads them."""
        return [
            [scale * number for number in numbers]
            for scale, numbers in zip(self.scales[slot], self.numbers[slot], strict=True)
        ]
