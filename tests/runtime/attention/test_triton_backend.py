"""The triton backend, interpreted, against the reference and the torch backend."""

import numpy as np
import pytest
import support.model.needs_triton  # noqa: F401
import torch
from support.model.attention_cases import HEAD_SIZE, Seq, StepCase
from support.model.needs import INTERPRETED
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.model.paged_cases import DEVICE

from minivllm.core.scheduler_output import BlockCopy
from minivllm.errors import ConfigError
from minivllm.runtime.attention import triton_backend
from minivllm.runtime.attention.backend import choose_attention_backend
from minivllm.runtime.attention.triton_backend import TritonAttentionBackend
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec

pytestmark = [] if INTERPRETED else [pytest.mark.gpu]

CUDA = torch.device("cuda")
VERSIONS = ("naive", "grouped", "split", "static", "unified")


def spec_of(
    head_size: int = 16, dtype: torch.dtype = torch.float32, kv_cache_dtype: str = "auto"
) -> KVCacheSpec:
    return KVCacheSpec(1, 1, head_size, 4, dtype, kv_cache_dtype)


def check(case: StepCase, version: str = "split", dtype: torch.dtype = torch.float32) -> None:
    """Check that a step gives the reference's output and leaves the reference's cache."""
    shape = (1, case.num_kv_heads, HEAD_SIZE, case.block_size, dtype)
    spec = KVCacheSpec(*shape, sliding_windows=(case.window,))
    num_heads = case.num_kv_heads * case.group
    backend = TritonAttentionBackend(
        version, spec, case.num_blocks, DEVICE, num_heads, len(case.seqs) + 3, 1024
    )

    def as_backend_layout() -> torch.Tensor:
        """[2, num_blocks, num_kv_heads, block_size, head_size]."""
        return torch.stack((case.key_cache, case.value_cache)).transpose(2, 3).to(dtype)

    backend.kv_cache[0].copy_(as_backend_layout())
    new = [x.to(dtype).to(DEVICE) for x in (case.query, case.key, case.value)]
    cos_sin = tuple(x.to(DEVICE) for x in case.cos_sin(len(case.query), dtype))
    output = backend.forward(0, *new, cos_sin, backend.build(case.metadata()))
    tolerance = {torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype]
    torch.testing.assert_close(
        output.cpu().double(), case.reference(), rtol=tolerance, atol=tolerance
    )
    # Only the slots of the new tokens changed, NaN included.
    torch.testing.assert_close(
        backend.kv_cache[0].cpu(), as_backend_layout(), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("version", VERSIONS[2:])
def test_decodes_chunks_and_a_context_long_enough_to_be_split_match_the_reference(version):
    mixed = [Seq(7), Seq(5, 6), Seq(0), Seq(30), Seq(0, 9), Seq(8, 2), Seq(15)]
    mixed += [Seq(7, is_all_cached=True)]
    for window in (0, 5):
        check(StepCase(mixed, window=window), version)
    check(StepCase([Seq(7), Seq(0), Seq(40), Seq(15)], group=4), version)
    check(StepCase([Seq(600), Seq(3), Seq(0, 4)], num_kv_heads=1, block_size=16), version)


@pytest.mark.parametrize(
    ("decodes", "chunks", "in_one"),
    [
        ([100] * 200, [64], True),
        ([100] * 200, [1024, 1025], False),  # mostly chunks: their own kernel has larger tiles
        ([900], [64], False),  # a long context alone is split, which a single launch does not do
        ([], [64], False),
    ],
)
def test_a_step_takes_one_launch_where_many_decodes_run_beside_few_chunks(decodes, chunks, in_one):
    backend = TritonAttentionBackend("unified", spec_of(), 4, DEVICE, 4, 256, 4096)
    lengths = np.array([1] * len(decodes) + chunks)
    common = CommonAttentionMetadata(
        query_start_loc=np.concatenate(([0], lengths.cumsum())),
        num_computed_tokens=np.array([context - 1 for context in decodes] + [0] * len(chunks)),
        block_tables=np.zeros((len(lengths), 4), dtype=np.int64),
        slot_mapping=np.zeros(lengths.sum(), dtype=np.int64),
    )
    metadata = backend.build(common)
    assert (metadata.ragged.tiles is None) == in_one
    assert (metadata.decodes is None) == (in_one or not decodes)


@pytest.mark.parametrize(
    "copies",
    [
        [BlockCopy(1, 2), BlockCopy(1, 3)], [BlockCopy(1, 2), BlockCopy(4, 1)],
        [BlockCopy(4, 1), BlockCopy(1, 2)],
    ],
    ids=["disjoint", "source given away", "source overwritten first"],
)  # fmt: skip
def test_all_sources_of_block_copies_are_read_before_any_block_is_written(copies):
    spec = KVCacheSpec(2, 2, HEAD_SIZE, 4, torch.float32)
    backend = TritonAttentionBackend("split", spec, 5, DEVICE, 2, 4, 64)
    before = torch.randn(backend.kv_cache.shape)
    backend.kv_cache.copy_(before)
    backend.copy_blocks(copies)
    expected = before.clone()
    for src, dst in copies:
        expected[:, :, dst] = before[:, :, src]
    assert torch.equal(backend.kv_cache.cpu(), expected)


# ---- choice of the backend ----


@pytest.mark.skipif(not INTERPRETED, reason="on a CPU, kernels are interpreted or cannot run")
def test_on_a_cpu_auto_is_never_triton_and_triton_means_the_kernel_for_any_step():
    cpu = torch.device("cpu")
    assert choose_attention_backend("auto", spec_of(), cpu, tell=pytest.fail) in ("cpu", "torch")
    assert choose_attention_backend("triton", spec_of(), cpu, tell=pytest.fail) == "triton:split"
    windowed = KVCacheSpec(1, 1, 16, 4, torch.float32, sliding_windows=(9,))
    for spec in (spec_of(kv_cache_dtype="int8_per_token_head"), windowed):
        with pytest.raises(ConfigError, match=r"triton:naive.*use triton:grouped"):
            choose_attention_backend("triton:naive", spec, cpu)


def test_on_a_gpu_auto_means_the_kernel_for_graphs_or_torch_with_a_reason(monkeypatch):
    """Capability queries answer as on an H100."""
    monkeypatch.setattr(triton_backend, "INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    chosen = {"triton:naive": "triton:naive", "torch": "torch"}
    chosen |= dict.fromkeys(("auto", "triton", "triton:unified"), "triton:unified")
    for name, expected in chosen.items():
        assert choose_attention_backend(name, spec_of(), CUDA, tell=pytest.fail) == expected
    for spec, reason in (
        (spec_of(head_size=512), "even head sizes from 8 to 256"),
        (spec_of(dtype=torch.float64), r"got dtype torch.float64"),
    ):
        told: list[str] = []
        assert choose_attention_backend("auto", spec, CUDA, told.append) == "torch"
        assert len(told) == 1 and reason in told[0] and "\n" not in told[0]
        with pytest.raises(ConfigError, match=reason):
            choose_attention_backend("triton", spec, CUDA, pytest.fail)
