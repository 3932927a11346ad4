"""The arithmetic of `bench kernels`, and that it times no wrong result; kernels are interpreted."""

import pytest
import support.model.needs_triton  # noqa: F401  (skips this module where there is none)
import torch

from minivllm.errors import BenchError
from minivllm.lab.bench.kernels.cases import INTERPRETED_CASES, KernelCase, make_batch
from minivllm.lab.bench.kernels.runs import check_same, make_runs


def test_the_bytes_that_a_case_moves_are_those_that_its_kernel_must_read_and_write():
    shape = {"heads": 6, "kv_heads": 2, "head_size": 8, "block_size": 16}
    # Each key and value once, a query and an output per token, two bytes per number.
    mixed = KernelCase("mixed", batch=3, context=10, chunk=4, **shape)
    assert mixed.bytes_moved == 2 * (3 * 10 * 2 * 2 * 8 + 2 * 6 * 6 * 8)
    # Written or copied bytes count twice: one read, one write.
    assert KernelCase("kv_write", 3, 0, **shape).bytes_moved == 2 * (3 * 2 * 2 * 8) * 2
    assert KernelCase("block_copy", 3, 0, **shape).bytes_moved == 2 * (3 * 16 * 2 * 2 * 8) * 2


@pytest.mark.parametrize("case", INTERPRETED_CASES[:3], ids=lambda case: case.kernel)
def test_a_wrong_result_is_not_timed(case):
    batch = make_batch(case, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    results = {name: make()() for name, make in make_runs(case, batch).items()}
    for name, result in results.items():
        check_same(case, name, result, next(iter(results.values())))
        with pytest.raises(BenchError, match="differs from the first result"):
            check_same(case, name, result * 1.1, result)
