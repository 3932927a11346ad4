"""The promise of test_kernels_are_the_reference.py for all head sizes, groups, blocks and dtypes."""

import pytest
import support.model.needs_triton  # noqa: F401
import test_kernels_are_the_reference as promise
from support.model import triton_kernels
from support.model.needs import INTERPRETED
from support.model.paged_cases import OTHER_SHAPES

pytestmark = [
    pytest.mark.parametrize("shape", OTHER_SHAPES, ids=str),
    *([] if INTERPRETED else [pytest.mark.gpu]),
]


@pytest.mark.parametrize("version", triton_kernels.DECODE)
def test_decode_attention_of_every_shape_equals_the_reference(version, shape, seed):
    promise.test_every_version_of_decode_attention_equals_the_reference(
        triton_kernels, version, shape, seed
    )


@pytest.mark.parametrize("kernel", triton_kernels.CHUNKS)
def test_chunks_of_every_shape_equal_the_reference(kernel, shape, seed):
    promise.test_chunks_and_decodes_in_one_launch_equal_the_reference(
        triton_kernels, kernel, shape, seed
    )


@pytest.mark.parametrize(
    "check",
    [
        promise.test_the_attention_mass_of_every_block_equals_the_reference,
        promise.test_keys_and_values_go_to_their_slots_and_nowhere_else,
        promise.test_rotated_keys_go_to_their_slots_and_rotated_queries_come_back,
    ],
    ids=["mass", "write", "rotate"],
)
def test_masses_and_writes_of_every_shape_equal_the_reference(check, shape, seed):
    check(triton_kernels, shape, seed)
