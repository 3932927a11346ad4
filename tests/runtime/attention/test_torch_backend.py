"""The torch and CPU backends against the reference. Slots that no query may read hold NaN."""

import pytest
import torch
from support.model.attention_cases import SHARING, Seq, random_case
from support.model.backend_cases import BackendCase, CpuCase, as_backend_layout

from minivllm.runtime.attention.partial import attend_in_steps

MIXED = [Seq(7), Seq(5, 6), Seq(0), Seq(30), Seq(0, 9), Seq(8, 2), Seq(7, is_all_cached=True)]


def check(case: BackendCase, dtype: torch.dtype = torch.float32) -> None:
    backend = case.backend(dtype)
    output = case.run(backend, dtype)
    expected = case.reference()
    tolerance = {torch.float32: 1e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}[dtype]
    torch.testing.assert_close(output.double(), expected, rtol=tolerance, atol=tolerance)
    # Only the slots of the new tokens changed, NaN included.
    written = as_backend_layout(case.key_cache, case.value_cache).to(dtype)
    torch.testing.assert_close(backend.kv_caches[0], written, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("dtype", "group"), [(torch.float32, 7), (torch.bfloat16, 3), (torch.float16, 1)]
)
def test_chunks_and_decodes_in_one_batch_match_the_reference(group, dtype):
    check(BackendCase(MIXED, group=group), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SHARING)
def test_attending_to_a_shared_prefix_once_matches_the_reference(name, dtype):
    case = BackendCase(SHARING[name])
    assert case.backend().build(case.metadata()).spans, "nothing was shared"
    check(case, dtype)
    if dtype == torch.float32:
        check(CpuCase(SHARING[name]))


def test_the_choice_of_blocks_changes_no_bit():
    seqs = [Seq(7), Seq(150), Seq(149, 1, 1, 36), Seq(5, 6)]
    case, moved = BackendCase(seqs), BackendCase(seqs)
    order = torch.randperm(case.num_blocks, generator=torch.Generator().manual_seed(7))
    moved.block_tables = [order[table].tolist() for table in case.block_tables]
    moved.key_cache[order], moved.value_cache[order] = case.key_cache, case.value_cache
    moved.slot_mapping = [int(order[slot // 4]) * 4 + slot % 4 for slot in case.slot_mapping]
    assert torch.equal(case.run(case.backend()), moved.run(moved.backend()))


@pytest.mark.parametrize("make", [BackendCase, CpuCase], ids=["torch", "cpu"])
@pytest.mark.parametrize("seed", range(12))
def test_random_batches_with_random_sharing_match_the_reference(seed, make):
    seqs, options = random_case(seed)
    check(make(seqs, **options))


@pytest.mark.parametrize("name", SHARING)
def test_the_path_for_other_devices_matches_the_reference(name, monkeypatch):
    monkeypatch.setattr("minivllm.runtime.attention.torch_backend.attend", attend_in_steps)
    check(BackendCase(SHARING[name]))
    check(BackendCase(MIXED, group=7))
