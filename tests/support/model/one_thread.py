"""One torch thread: as a context, and as a fixture for all tests of a module that imports it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch


@contextmanager
def in_one_thread() -> Iterator[None]:
    """A second thread slows a model this small, most of all beside other work.

    It also changes the order of sums, so the last bits of logits differ.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    with in_one_thread():
        yield
