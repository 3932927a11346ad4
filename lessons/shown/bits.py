"""Bits and blocks of real weights, as text drawings for lesson 13."""

import struct

from minivllm.lessons.shown.quantize import Q4Block, dequantize_block

_ROWS = 4


def bits_figure(weight: float) -> tuple[str, ...]:
    """A weight's sixteen bits in the file, and its 32 bits in a register."""
    bits = f"{struct.unpack('>I', struct.pack('>f', weight))[0]:032b}"
    parts = f"{bits[0]} {bits[1:9]} {bits[9:16]}"
    return (
        f"weight   {weight:.6f}",
        f"file     {parts}",
        f"register {parts} 0..0",
        "         ± exponent fraction",
    )


def block_figure(weights: list[float], block: Q4Block) -> tuple[str, ...]:
    """The first weights of a block: as they were, as quants, and as they are read back."""
    rows = zip(weights[:_ROWS], block.quants, dequantize_block(block), strict=False)
    return (
        f"scale {block.scale:.4f}, minimum {block.minimum:.4f}",
        "",
        " weight   quant   read back",
        *(f"{weight:7.4f}  {quant:6}  {read:10.4f}" for weight, quant, read in rows),
        f"    ... and {len(weights) - _ROWS} more",
    )
