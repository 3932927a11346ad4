"""Fixtures of the kernel tests. On a machine with a GPU they run compiled, as GPU tests."""

import pytest
from support.model.needs import INTERPRETED

# tensors this small are slower with two threads than with one
from support.model.one_thread import one_thread
from support.model.paged_cases import new_seed

__all__ = ["new_seed", "one_thread"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not INTERPRETED and item.path.parent.name == "kernels":
            item.add_marker(pytest.mark.gpu)
