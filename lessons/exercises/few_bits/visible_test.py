"""The README's examples as tests, for `pytest visible_test.py`."""

import pytest
import quantize


def test_a_block_has_fifteen_steps():
    block = quantize.quantize_block([-0.6, 0.0, 0.43, 0.9])
    assert block.quants == [0, 6, 10, 15]
    assert (block.scale, block.minimum) == pytest.approx((0.1, -0.6))


def test_equal_weights_come_back_as_they_were():
    assert quantize.dequantize_block(quantize.quantize_block([0.25] * 4)) == [0.25] * 4


def test_weights_are_read_back_within_half_a_step():
    weights = [-0.6, 0.0, 0.43, 0.9]
    read = quantize.dequantize_block(quantize.quantize_block(weights))
    assert read == pytest.approx([-0.6, 0.0, 0.4, 0.9])


def test_a_packed_block_has_twenty_bytes_and_can_be_unpacked():
    block = quantize.Q4Block(0.5, -2.0, [*range(16), *range(15, -1, -1)])
    assert len(quantize.pack_block(block)) == 20
    assert quantize.unpack_block(quantize.pack_block(block)) == block


def test_the_largest_number_of_a_head_is_127():
    scale, numbers = quantize.quantize_head([0.5, -2.0, 0.0])
    assert (scale, numbers) == (pytest.approx(2 / 127), [32, -127, 0])
    assert quantize.quantize_head([0.0, 0.0]) == (quantize.MIN_SCALE, [0, 0])


def test_a_later_token_changes_no_earlier_one():
    cache = quantize.Int8Cache(2, 1)
    cache.write(0, [[0.5, -2.0, 0.0]])
    before = cache.read(0)
    cache.write(1, [[90.0, 1.0, 0.0]])
    assert cache.read(0) == before
