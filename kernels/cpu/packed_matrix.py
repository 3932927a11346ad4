"""`PackedMatrix`: a matrix in panels, as kernels/cpu/linear.c reads it.

A part is rows of the matrix that have the same format: query, key and value rows of one product can
be stored in three formats. Each part has its own panels and writes its own columns of the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

LANES = 16
"""Outputs of a panel."""
FORMAT_NAMES = (
    "float32",
    "bfloat16",
    "float16",
    "int8",
    "q8_0",
    "q4_0",
    "q4_1",
    "q4_k",
    "q6_k",
)
"""The order of `enum format` in linear_formats.h."""


@dataclass(frozen=True, slots=True)
class Panels:
    """Rows of one format. linear_formats.h has the layout of a panel."""

    format: str
    data: torch.Tensor
    """[num_panels, bytes of a panel] uint8, contiguous; outputs past the last row are zeros"""
    num_rows: int


class PackedMatrix:
    """Logically [out_features, in_features]; the parts are in the order of the outputs."""

    def __init__(self, parts: Sequence[Panels], in_features: int) -> None:
        self.panels = tuple(parts)
        self.in_features = in_features
        self.out_features = 0
        described = []
        for part in parts:
            num_panels, panel_bytes = part.data.shape
            described.append(
                (FORMAT_NAMES.index(part.format), part.data.data_ptr(), panel_bytes, num_panels,
                 self.out_features)
            )  # fmt: skip
            self.padded_out_features = self.out_features + num_panels * LANES
            self.out_features += part.num_rows
        self.num_bytes = sum(part.data.nbytes for part in parts)
        self.parts = torch.tensor(described, dtype=torch.int64)
        """[num_parts, 5]: `struct part` of linear.c, for each part"""

    @property
    def fields(self) -> list[int]:
        """`struct matrix` of linear.h."""
        parts = self.parts
        return [parts.data_ptr(), len(parts), self.in_features, self.padded_out_features]
