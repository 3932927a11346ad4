"""The README's example as tests, for `pytest visible_test.py`."""

import pytest
from step_limits import (
    MachineRates,
    ModelSizes,
    arithmetic_intensity,
    bytes_read,
    decode_work,
    kv_bytes_per_token,
    limit_of,
    num_sequences_that_fit,
    operations,
    prefill_work,
    shortest_step,
)

MODEL = ModelSizes(
    num_weights=1000,
    bytes_per_weight=2,
    num_layers=2,
    num_heads=4,
    num_kv_heads=1,
    head_size=4,
    bytes_per_number=2,
)
MACHINE = MachineRates(memory_bytes=2960, bytes_per_second=100, operations_per_second=1000)


def test_a_token_has_a_key_and_a_value_in_each_layer():
    assert kv_bytes_per_token(MODEL) == 32


def test_the_weights_take_room():
    assert num_sequences_that_fit(MODEL, MACHINE, 10) == 3
    assert num_sequences_that_fit(MODEL, MACHINE._replace(memory_bytes=1500), 10) == 0


def test_a_decode_computes_one_token_and_reads_the_context():
    assert decode_work(3, 10) == (3, 30)


def test_weights_are_read_once():
    assert bytes_read(MODEL, decode_work(1, 10)) == 2320
    assert bytes_read(MODEL, decode_work(3, 10)) == 2960


def test_operations_grow_with_the_tokens():
    assert operations(MODEL, decode_work(3, 10)) == 6000
    assert arithmetic_intensity(MODEL, prefill_work(20)) == pytest.approx(40_000 / 2640)


def test_the_slower_of_reading_and_computing_decides():
    assert shortest_step(MODEL, MACHINE, decode_work(3, 10)) == pytest.approx(29.6)
    assert shortest_step(MODEL, MACHINE, prefill_work(20)) == pytest.approx(40)


def test_the_limit_changes_with_the_batch():
    assert [limit_of(MODEL, MACHINE, batch, 10) for batch in (1, 3, 4)] == [
        "bandwidth",
        "bandwidth",
        "capacity",
    ]
