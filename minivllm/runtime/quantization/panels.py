"""Pack stored weights into panels of sixteen outputs, for the CPU kernel.

The bits stay those of the checkpoint; only their order changes. kernels/cpu/linear_formats.h has
the layout. A large matrix is packed piece by piece, so packing needs little memory beside it.
"""

from collections.abc import Callable

import torch

from minivllm.kernels.cpu.packed_matrix import LANES, Panels
from minivllm.runtime.cpu.large_pages import LargePages
from minivllm.runtime.quantization.formats import BlockFields
from minivllm.runtime.quantization.stored_weight import StoredWeight

_WEIGHTS_AT_ONCE = 1 << 18


def pack(weight: StoredWeight, memory: LargePages) -> Panels:
    """Pack a matrix into new memory. Raises `ModelIntegrityError` for a scale that is NaN."""
    num_panels = -(-weight.num_rows // LANES)
    panels_at_once = max(1, _WEIGHTS_AT_ONCE // (LANES * weight.in_features))
    packed = None
    for first in range(0, num_panels, panels_at_once):
        piece = weight.rows(slice(first * LANES, (first + panels_at_once) * LANES))
        panels = _pack_piece(piece)
        if packed is None:
            packed = memory.empty(num_panels, panels.shape[1], dtype=torch.uint8)
        packed[first : first + len(panels)] = panels
    return Panels(weight.format.name, packed, weight.num_rows)


def _pack_piece(weight: StoredWeight) -> torch.Tensor:
    """Return [num_panels, bytes of a panel] uint8."""
    if weight.format.split is not None:
        return _pack_fields(weight.fields(), _PACK_QUANTS[weight.format.name])
    numbers = _by_panel(weight.data.contiguous().view(weight.format.dtype))
    if weight.format.dtype is torch.bfloat16:  # in pairs
        odd = numbers.shape[-1] % 2
        numbers = torch.nn.functional.pad(numbers, (0, odd)).unflatten(-1, (-1, 2))
    return _pack_bytes(numbers)


def _pack_fields(
    fields: BlockFields, pack_quants: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Return [num_panels, bytes of a panel] uint8: scales of a block, then its groups."""
    num_blocks = fields.scales.shape[1]
    quants = pack_quants(_by_panel(fields.quants))
    of_groups = fields.sub_scales, fields.sub_minimums
    groups = [_x16(field) for field in of_groups if field is not None]
    if groups:
        quants = torch.cat((*groups, quants.view(*groups[0].shape[:2], -1)), dim=-1)
    blocks = [_x16(field) for field in (fields.scales, fields.minimums) if field is not None]
    return torch.cat((*blocks, quants.reshape(len(quants), num_blocks, -1)), dim=-1).flatten(1)


def _by_panel(field: torch.Tensor) -> torch.Tensor:
    """[num_rows, n] -> [num_panels, 16, n]; rows past the last one are zeros"""
    field = torch.nn.functional.pad(field, (0, 0, 0, -len(field) % LANES))
    return field.view(-1, LANES, field.shape[1])


def _bytes(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.contiguous().view(torch.uint8)


def _x16(field: torch.Tensor) -> torch.Tensor:
    """Bring a field of sixteen outputs together: [num_rows, n] -> [num_panels, n, bytes]"""
    return _bytes(_by_panel(field).transpose(1, 2))


def _pack_bytes(quants: torch.Tensor) -> torch.Tensor:
    """[num_panels, 16, in_features] -> [num_panels, in_features * 16]"""
    return _bytes(quants.transpose(1, 2)).flatten(1)


def _lanes(quants: torch.Tensor, bits: int) -> torch.Tensor:
    """Pack consecutive inputs of an output into lanes of 32 bits, the first input lowest.

    quants: [num_panels, 16, n] -> [num_panels, n * bits / 32, 16] int32
    """
    inputs = quants.unflatten(-1, (-1, 32 // bits))
    lanes = inputs[..., 0].int()
    for i in range(1, 32 // bits):
        lanes |= inputs[..., i].int() << i * bits
    return lanes.transpose(1, 2)


def _pack_nibbles(quants: torch.Tensor) -> torch.Tensor:
    return _bytes(_lanes(quants, 4)).flatten(1)


def _pack_six_bits(quants: torch.Tensor) -> torch.Tensor:
    """Per group of sixteen inputs: two lanes of low halves, one lane of the two high bits."""
    low = _lanes(quants & 15, 4).unflatten(1, (-1, 2))
    high = _lanes(quants >> 4, 2).unsqueeze(2)
    return _bytes(torch.cat((low, high), dim=2)).flatten(1)


_PACK_QUANTS = {
    "int8": _pack_bytes,
    "q8_0": _pack_bytes,
    "q4_0": _pack_nibbles,
    "q4_1": _pack_nibbles,
    "q4_k": _pack_nibbles,
    "q6_k": _pack_six_bits,
}
