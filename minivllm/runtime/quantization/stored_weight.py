"""`StoredWeight`: a matrix, or some rows of one, in the bytes of a checkpoint.

A GGUF file stores each tensor in its own format, so the query, key and value rows of one product
can have three formats. Rows are whole numbers of blocks, so rows can be sliced, reordered and
joined without touching a block.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import torch

from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.quantization.formats import FORMATS, BlockFields, WeightFormat

_LARGEST_INT8 = 127
_WEIGHTS_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """Rows in one format. Raises `UnsupportedModelError` if they are not whole blocks."""

    format: WeightFormat
    data: torch.Tensor
    """[num_rows, bytes_per_row] uint8"""
    in_features: int

    def __post_init__(self) -> None:
        if self.in_features % self.format.block_size:
            raise UnsupportedModelError(
                f"A matrix with {self.in_features} inputs cannot be stored as {self.format.name},"
                f" whose blocks have {self.format.block_size} weights: use the model in another"
                " format."
            )

    @classmethod
    def of_tensor(cls, weight: torch.Tensor) -> Self:
        """Wrap a float32, bfloat16 or float16 matrix [num_rows, in_features]; shares its memory."""
        format_ = FORMATS[str(weight.dtype).removeprefix("torch.")]
        return cls(format_, weight.contiguous().view(torch.uint8), weight.shape[1])

    @classmethod
    def quantize_int8(cls, pieces: Iterable[torch.Tensor], shape: tuple[int, int]) -> Self:
        """Quantize each row to int8 with a scale of its own, symmetric around zero.

        pieces: a matrix of this shape, some rows at a time, to need little memory beside the result
        """
        num_rows, in_features = shape
        format_ = FORMATS["int8"]
        data = torch.empty(num_rows, format_.bytes_per_row(in_features), dtype=torch.uint8)
        first = 0
        for piece in pieces:
            rows = piece.float()
            scales = rows.abs().amax(dim=1, keepdim=True) / _LARGEST_INT8
            quants = torch.where(scales > 0, rows / scales, 0.0).round_().to(torch.int8)
            to = data[first : first + len(rows)]
            torch.cat((scales.view(torch.uint8), quants.view(torch.uint8)), dim=1, out=to)
            first += len(rows)
        return cls(format_, data, in_features)

    @property
    def num_rows(self) -> int:
        return len(self.data)

    @property
    def num_bytes(self) -> int:
        return self.data.numel()

    def fields(self) -> BlockFields:
        """Return quants and scales. Raises `ModelIntegrityError` if a scale is infinite or NaN."""
        fields = self.format.split(self.data)
        for scales in (fields.scales, fields.minimums):
            if scales is not None and not scales.isfinite().all():
                raise ModelIntegrityError(
                    f"A matrix in {self.format.name} has a scale that is not a finite number: the"
                    " file is damaged, download the model again."
                )
        return fields

    def dequantize(self) -> torch.Tensor:
        """Return the weights: [num_rows, in_features] float32. Raises as `fields` does."""
        if self.format.split is None:
            return self.data.contiguous().view(self.format.dtype).float()
        return self.fields().dequantize()

    def rows(self, index: slice | torch.Tensor) -> "StoredWeight":
        """Return some rows, in the order of `index` (a view if it is a slice)."""
        return StoredWeight(self.format, self.data[index], self.in_features)


CheckpointWeight = torch.Tensor | StoredWeight
"""A tensor of plain numbers on the CPU, or a matrix in a format of `FORMATS`."""


def in_row_order(weight: CheckpointWeight, order: torch.Tensor | None) -> CheckpointWeight:
    """Return the rows of a matrix or vector in another order. None: as they are."""
    if order is None:
        return weight
    return weight.rows(order) if isinstance(weight, StoredWeight) else weight[order]


def rows_at_once(in_features: int) -> int:
    """Return how many rows of a matrix are converted at once, to use little memory."""
    return max(1, _WEIGHTS_AT_ONCE // in_features)


def plain_weight(
    parts: Sequence[StoredWeight], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Dequantize the parts of a matrix, some rows at a time, into one tensor of `dtype`.

    Returns [out_features, in_features]. A single part in this dtype is only viewed.
    """
    if len(parts) == 1 and parts[0].format.dtype is dtype:
        return parts[0].data.view(dtype).to(device)
    in_features = parts[0].in_features
    num_rows = sum(part.num_rows for part in parts)
    weight = torch.empty(num_rows, in_features, dtype=dtype, device=device)
    at_once = rows_at_once(in_features)
    first = 0
    for part in parts:
        for start in range(0, part.num_rows, at_once):
            rows = part.rows(slice(start, start + at_once)).dequantize()
            weight[first : first + len(rows)] = rows
            first += len(rows)
    return weight


def join_rows(parts: Sequence[StoredWeight]) -> list[StoredWeight]:
    """Join neighbouring parts that have the same format; copies the bytes of joined parts."""
    joined: list[StoredWeight] = []
    for part in parts:
        if joined and joined[-1].format is part.format:
            data = torch.cat((joined[-1].data, part.data))
            joined[-1] = StoredWeight(part.format, data, part.in_features)
        else:
            joined.append(part)
    return joined


@dataclass(frozen=True, slots=True)
class WeightEntry:
    """One weight of a file, and how to read it."""

    name: str
    """Hugging Face's name."""
    shape: tuple[int, ...]
    dtype: str
    """The file's name for it: `BF16`, `Q4_1`."""
    num_bytes: int
    read: Callable[[slice], CheckpointWeight]
    """Read some rows; the result may be a mapping of the file."""
    is_quantized: bool = False
    """Whether `read` returns a `StoredWeight`."""
    row_order: torch.Tensor | None = None
    """Which row of the file is row 0, 1, ... of the weight; None for the order of the file."""
