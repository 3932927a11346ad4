"""The CPU backend's results do not depend on the batch, the chunks, or the number of threads.

Slots that no query may read hold NaN.
"""

import numpy as np
import pytest
import torch
from support.model.attention_cases import Seq
from support.model.backend_cases import CpuCase

from minivllm.errors import ConfigError
from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.runtime.attention.backend import choose_attention_backend
from minivllm.runtime.attention.cpu_backend import cut_into_parts
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec

CPU = torch.device("cpu")


def test_a_nan_sequence_changes_no_bit_of_the_others():
    case = CpuCase([Seq(20), Seq(33), Seq(7)])
    backend = case.backend()
    clean = case.run(backend)
    case.query[1] = float("nan")
    spoiled = case.run(backend)
    assert spoiled[1].isnan().all()
    assert torch.equal(spoiled[[0, 2]], clean[[0, 2]])


BATCHES = {
    "a decode among decodes": [Seq(200), Seq(3), Seq(77)],
    "a decode among chunks": [Seq(77), Seq(0, 40), Seq(33, 7)],
    "a chunk among others": [Seq(20, 30), Seq(150), Seq(0, 9), Seq(5, 2)],
    "so many that one thread takes all key heads": [Seq(50)] * 300,
}
"""A sequence, then its batch-mates."""


def copy_first_sequence(source: CpuCase, target: CpuCase) -> None:
    """Copy the first sequence of `source` into `target`: its new rows and its cached ones."""
    seq = source.seqs[0]
    for name in ("query", "key", "value"):
        getattr(target, name)[: seq.num_new] = getattr(source, name)[: seq.num_new]
    for name in ("key_cache", "value_cache"):
        theirs, ours = (getattr(case, name).flatten(0, 1) for case in (source, target))
        ours[target.slots(0, 0, seq.num_computed)] = theirs[source.slots(0, 0, seq.num_computed)]


@pytest.mark.parametrize(("group", "block_size"), [(1, 16), (3, 3), (7, 16)])
@pytest.mark.parametrize("name", BATCHES)
def test_a_sequence_gets_the_same_bits_alone_and_in_any_batch(name, group, block_size):
    alone, among = (
        CpuCase(seqs, block_size=block_size, group=group)
        for seqs in (BATCHES[name][:1], BATCHES[name])
    )
    copy_first_sequence(alone, among)
    expected = alone.run(alone.backend())
    assert torch.equal(among.run(among.backend())[: len(expected)], expected)


@pytest.mark.parametrize(("num_new", "group"), [(1, 5), (5, 8)])
def test_sharing_a_prefix_changes_no_bit_where_decodes_are_lanes_too(group, num_new):
    alone = CpuCase([Seq(100, num_new)], group=group)
    shared = CpuCase([Seq(100, num_new), Seq(90, 1, 0, 19), Seq(99, 4, 0, 21)], group=group)
    copy_first_sequence(alone, shared)
    assert len(cut_into_parts(shared.metadata(), shared.block_size, group).level_ends) > 1
    expected = alone.run(alone.backend())
    assert torch.equal(shared.run(shared.backend())[: len(expected)], expected)


@pytest.mark.parametrize(("group", "block_size"), [(1, 16), (3, 3), (7, 16)])
@pytest.mark.parametrize("kind", ["auto", "bfloat16", "int8_per_token_head"])
@pytest.mark.parametrize(("cut", "window"), [(1, 0), (37, 0), (63, 0), (37, 21), (62, 5)])
def test_a_prompt_gets_the_same_bits_for_any_chunks(cut, window, kind, group, block_size):
    whole = CpuCase([Seq(0, 64)], block_size=block_size, group=group, window=window)
    expected = whole.run(whole.backend(kv_cache_dtype=kind))
    backend, table = whole.backend(kv_cache_dtype=kind), whole.block_tables
    for start, end in ((0, cut), (cut, 64)):
        rows = slice(start, end)
        batch = (x[rows].float() for x in (whole.query, whole.key, whole.value))
        slots = np.array(whole.slots(0, start, end))
        step = CommonAttentionMetadata(
            np.array([0, end - start]), np.array([start]), np.array(table), slots
        )
        cos_sin = whole.cos_sin(end - start, torch.float32)
        output = backend.forward(0, *batch, cos_sin, backend.build(step))
        # The kernel treats it as a decode and sums float32 in another order.
        if end - start == 1 and group <= 4 and kind == "auto":
            torch.testing.assert_close(output, expected[rows], rtol=1e-6, atol=1e-6)
        else:
            assert torch.equal(output, expected[rows])


@pytest.mark.parametrize("group", [1, 3, 7])
def test_threads_that_share_the_work_change_no_bit(group):
    """Three levels of prefixes, each of which continues the one before."""
    nested = [Seq(400), Seq(300, 30, 0, 18), Seq(390, 1, 1, 15), Seq(400, 1, 0, 20)]
    case = CpuCase([*nested, Seq(260, 9, 0, 10), *[Seq(200)] * 20], block_size=16, group=group)
    assert len(cut_into_parts(case.metadata(), case.block_size, group).level_ends) >= 3
    torch.set_num_threads(1)
    expected = case.run(case.backend())
    for num_threads in (2, 3, 8):  # in places more threads than parts
        torch.set_num_threads(num_threads)
        assert torch.equal(case.run(case.backend()), expected), f"{num_threads} threads"
    torch.testing.assert_close(expected.double(), case.reference(), rtol=1e-6, atol=1e-6)


def test_auto_takes_torch_where_the_cpu_backend_cannot_run_and_cpu_says_why(monkeypatch):
    without_compiler = KVCacheSpec(1, 1, 32, 16, torch.float32)
    for spec, why in (
        (KVCacheSpec(1, 1, 32, 16, torch.bfloat16), "support float32 only, and the KV cache is"),
        (KVCacheSpec(1, 1, 24, 16, torch.float32), "multiples of 16"),
        (KVCacheSpec(1, 1, 272, 16, torch.float32), "multiples of 16"),
        (without_compiler, "there is no program /no/such/compiler.*Use attention_backend='torch'"),
    ):
        if spec is without_compiler:
            monkeypatch.setenv("CC", "/no/such/compiler")
            load_cpu_library.cache_clear()
        assert choose_attention_backend("auto", spec, CPU) == "torch"
        with pytest.raises(ConfigError, match=why):
            choose_attention_backend("cpu", spec, CPU)
    load_cpu_library.cache_clear()
