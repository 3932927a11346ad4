"""What each kernel version reads, watched here."""

import pytest
from support.model.needs import NO_TRITON

pytest.importorskip("triton", reason=NO_TRITON)

from minivllm.kernels.attention.decode_split import choose_num_splits
from minivllm.lessons.shown import kernel_reads
from minivllm.lessons.shown.kernel_reads import SPLITS, Shape, look

SHAPE = Shape(num_heads=4, num_kv_heads=2, head_size=16, context=128, padded_rows=2)


@pytest.fixture(scope="module")
def looks():
    return look(SHAPE)


def test_every_kernel_version_matches_the_reference(looks):
    assert set(looks) == {"naive", "grouped", "split", "static", "unified"}
    assert all(seen.right for seen in looks.values())


def test_the_naive_kernel_reads_each_key_for_every_query_head_and_the_others_once(looks):
    assert (looks["naive"].programs, looks["naive"].keys_read) == (4, 4 * 128)
    assert {looks[version].keys_read for version in ("grouped", "split", "static", "unified")} == {
        2 * 128
    }
    assert looks["grouped"].programs == looks["unified"].programs == 2
    assert looks["split"].programs == 2 * SPLITS
    # A graph for three rows: splits for all of them, and two rows of padding.
    assert looks["static"].programs == 2 * choose_num_splits(3, 2, 128)
    assert looks["static"].idle_programs >= 2 * looks["static"].programs


def test_a_machine_that_compiles_kernels_watches_them_in_another_process(looks, monkeypatch):
    monkeypatch.setattr(kernel_reads, "interprets_here", lambda: False)
    assert look(SHAPE) == looks
