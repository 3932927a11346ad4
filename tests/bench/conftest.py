"""One torch thread for all of these tests.

A tiny model's step is mostly waiting for the second thread where other tests want the processor too; and the
benches set the number of threads for the whole process, which must not reach the tests that come after.
"""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
