"""Fixtures of the kernel tests. On a machine with a GPU they run compiled, as GPU tests."""

from pathlib import Path

import pytest

# tensors this small are slower with two threads than with one
from support.model.one_thread import one_thread
from support.model.paged_cases import seed

from minivllm.kernels.mode import INTERPRETED

__all__ = ["one_thread", "seed"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not INTERPRETED and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.gpu)
