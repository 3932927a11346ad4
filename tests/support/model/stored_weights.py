"""Float32 panels for tests that call the CPU kernel itself."""

import torch

from minivllm.kernels.cpu.packed_matrix import PackedMatrix, Panels


def float_panels(panels: torch.Tensor) -> PackedMatrix:
    """panels: [num_panels, in_features, 16] float32"""
    num_panels, in_features, lanes = panels.shape
    data = panels.flatten(1).view(torch.uint8)
    return PackedMatrix([Panels("float32", data, num_panels * lanes)], in_features)
