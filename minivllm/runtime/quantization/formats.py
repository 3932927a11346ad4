"""`FORMATS`: how a checkpoint stores the weights of a matrix, and the plain way to read them.

A row of a matrix is a sequence of blocks. A block of a quantized format has small whole numbers
(the quants) and one or more scales that they share:

    q8_0    [d: f16][32 x int8]                     weight = d * q
    q4_0    [d: f16][32 x 4 bits]                   weight = d * (q - 8)
    q4_1    [d: f16][m: f16][32 x 4 bits]           weight = d * q + m
    q4_k    8 groups of 32, each with its own scale and minimum of 6 bits
    q6_k    16 groups of 16, each with its own scale of 8 bits
    int8    [scale: f32][in_features x int8]        weight = scale * q; a row is one block

Every product of scales and quants has at most 24 bits, so it is exact in float32. Only the addition
of a minimum rounds, once. So a fused multiply-add gives the same bits as these references.

Source: ggml `ggml-common.h` and `ggml-quants.c`; the package `gguf` (quants.py), whose results the
tests compare bit for bit. int8: vLLM's weight-only `int8` per output channel.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class BlockFields:
    """The numbers of some rows of blocks, one tensor per field.

    weight = scales * sub_scales * (quants - zero) + minimums, with `minimums` negated and times
    `sub_minimums` if there are sub-minimums.
    """

    quants: torch.Tensor
    """[num_rows, in_features], uint8 or int8"""
    scales: torch.Tensor
    """[num_rows, num_blocks], float16 or float32"""
    minimums: torch.Tensor | None = None
    """[num_rows, num_blocks], float16"""
    sub_scales: torch.Tensor | None = None
    """[num_rows, num_groups], uint8 or int8"""
    sub_minimums: torch.Tensor | None = None
    """[num_rows, num_groups], uint8"""
    zero: int = 0

    def dequantize(self) -> torch.Tensor:
        """Return the weights: [num_rows, in_features] float32."""
        num_rows, in_features = self.quants.shape
        scales = self._per_group(self.scales, self.sub_scales)
        quants = self.quants.float().view(num_rows, scales.shape[1], -1) - self.zero
        weights = scales.unsqueeze(-1) * quants
        if self.minimums is not None:
            sign = 1 if self.sub_minimums is None else -1
            minimums = sign * self._per_group(self.minimums, self.sub_minimums)
            weights += minimums.unsqueeze(-1)
        return weights.view(num_rows, in_features)

    @staticmethod
    def _per_group(of_blocks: torch.Tensor, of_groups: torch.Tensor | None) -> torch.Tensor:
        if of_groups is None:
            return of_blocks.float()
        repeats = of_groups.shape[1] // of_blocks.shape[1]
        return of_blocks.float().repeat_interleave(repeats, dim=1) * of_groups


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """One format. Rows of blocks are uint8 tensors, [num_rows, bytes_per_row]."""

    name: str
    block_size: int
    """Weights per block; `in_features` must be a multiple of it."""
    block_bytes: int
    header_bytes: int = 0
    """Bytes at the start of a row, before its blocks."""
    dtype: torch.dtype | None = None
    """The dtype of plain numbers; None for a quantized format."""
    split: Callable[[torch.Tensor], BlockFields] | None = None
    """Split rows of blocks into fields; None for plain numbers."""

    def bytes_per_row(self, in_features: int) -> int:
        return self.header_bytes + in_features // self.block_size * self.block_bytes


def _numbers(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Read the bytes of the last dimension as numbers, and merge the last two dimensions."""
    return data.contiguous().view(dtype).flatten(-2)


def _blocks(data: torch.Tensor, block_bytes: int) -> torch.Tensor:
    """[num_rows, bytes_per_row] -> [num_rows, num_blocks, block_bytes]"""
    return data.view(len(data), data.shape[1] // block_bytes, block_bytes)


def _nibbles(pairs: torch.Tensor) -> torch.Tensor:
    """Unpack bytes, of which the low halves are all before the high halves.

    pairs: [..., n] uint8 -> [..., 2n] uint8
    """
    return torch.cat((pairs & 15, pairs >> 4), dim=-1)


def _split_q8_0(data: torch.Tensor) -> BlockFields:
    blocks = _blocks(data, 34)
    return BlockFields(_numbers(blocks[..., 2:], torch.int8), _numbers(blocks[..., :2], torch.half))


def _split_q4_0(data: torch.Tensor) -> BlockFields:
    blocks = _blocks(data, 18)
    quants = _nibbles(blocks[..., 2:]).flatten(1)
    return BlockFields(quants, _numbers(blocks[..., :2], torch.half), zero=8)


def _split_q4_1(data: torch.Tensor) -> BlockFields:
    blocks = _blocks(data, 20)
    return BlockFields(
        _nibbles(blocks[..., 4:]).flatten(1),
        scales=_numbers(blocks[..., :2], torch.half),
        minimums=_numbers(blocks[..., 2:4], torch.half),
    )


def _split_q4_k(data: torch.Tensor) -> BlockFields:
    """A block of 256: [d: f16][dmin: f16][scales: 12 bytes][4 x (32 low, 32 high quants)].

    The twelve bytes hold eight scales and eight minimums. The first four of each are the low six
    bits of bytes 0-3 and 4-7. The others have their low four bits in bytes 8-11, and their high two
    bits on top of bytes 0-3 and 4-7.
    """
    blocks = _blocks(data, 144)
    first, second, low = blocks[..., 4:8], blocks[..., 8:12], blocks[..., 12:16]
    sub_scales = torch.cat((first & 63, (low & 15) | (first >> 2) & 48), dim=-1)
    sub_minimums = torch.cat((second & 63, (low >> 4) | (second >> 2) & 48), dim=-1)
    return BlockFields(
        _nibbles(blocks[..., 16:].unflatten(-1, (4, 32))).flatten(1),
        scales=_numbers(blocks[..., :2], torch.half),
        minimums=_numbers(blocks[..., 2:4], torch.half),
        sub_scales=sub_scales.flatten(1),
        sub_minimums=sub_minimums.flatten(1),
    )


def _split_q6_k(data: torch.Tensor) -> BlockFields:
    """A block of 256: [low 4 bits: 128 bytes][high 2 bits: 64 bytes][16 x int8 scale][d: f16].

    Each half of the block has 64 bytes of low bits and 32 bytes of high bits: byte j of the high
    bits belongs to the quants j, j + 32, j + 64 and j + 96 of the half.
    """
    blocks = _blocks(data, 210)
    low = _nibbles(blocks[..., :128].unflatten(-1, (2, 64)))
    pairs = blocks[..., 128:192].unflatten(-1, (2, 32))
    high = torch.cat([(pairs >> shift) & 3 for shift in (0, 2, 4, 6)], dim=-1)
    return BlockFields(
        (low | high << 4).flatten(1),
        scales=_numbers(blocks[..., 208:], torch.half),
        sub_scales=_numbers(blocks[..., 192:208], torch.int8),
        zero=32,
    )


def _split_int8(data: torch.Tensor) -> BlockFields:
    scales = data[:, :4].contiguous().view(torch.float32)
    return BlockFields(data[:, 4:].contiguous().view(torch.int8), scales)


FORMATS = {
    row.name: row
    for row in (
        WeightFormat("float32", 1, 4, dtype=torch.float32),
        WeightFormat("bfloat16", 1, 2, dtype=torch.bfloat16),
        WeightFormat("float16", 1, 2, dtype=torch.float16),
        WeightFormat("q8_0", 32, 34, split=_split_q8_0),
        WeightFormat("q4_0", 32, 18, split=_split_q4_0),
        WeightFormat("q4_1", 32, 20, split=_split_q4_1),
        WeightFormat("q4_k", 256, 144, split=_split_q4_k),
        WeightFormat("q6_k", 256, 210, split=_split_q6_k),
        WeightFormat("int8", 1, 1, header_bytes=4, split=_split_int8),
    )
}
"""All formats, by name. A quantized format of GGUF has its GGUF type's name in lower case."""
