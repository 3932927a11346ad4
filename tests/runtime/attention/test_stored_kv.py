"""KV caches in int8 and bfloat16: every backend against the reference over the rounded numbers."""

from types import SimpleNamespace

import pytest
import torch
from support.model.attention_cases import SHARING, Seq, random_case
from support.model.backend_cases import BackendCase, CpuCase
from support.model.needs import on_any_device
from support.model.paged_cases import DEVICE

from minivllm import runtime
from minivllm.config import EngineConfig
from minivllm.errors import ConfigError
from minivllm.kernels.reference_ops import dequantize_heads, quantize_heads
from minivllm.runtime.kv_cache import KVCacheSpec

INT8, BF16 = "int8_per_token_head", "bfloat16"
each_kind = pytest.mark.parametrize("kind", [INT8, BF16])


def rounded(x: torch.Tensor, kind: str) -> torch.Tensor:
    """What a cache of this kind gives back for x, by the definition."""
    if kind == BF16:
        return x.bfloat16().double()
    return dequantize_heads(*quantize_heads(x.float())).double()


def check(case: BackendCase, kind: str) -> None:
    for name in ("key", "value", "key_cache", "value_cache"):
        setattr(case, name, rounded(getattr(case, name) * 0.37, kind))
    backend = case.backend(kv_cache_dtype=kind)
    torch.testing.assert_close(case.run(backend).double(), case.reference(), rtol=2e-6, atol=2e-6)
    last = case.block_tables[-1]
    keys, values = backend.read_blocks(0, last)
    torch.testing.assert_close(keys.double(), case.key_cache[last], equal_nan=True)
    torch.testing.assert_close(values.double(), case.value_cache[last], equal_nan=True)


@each_kind
@pytest.mark.parametrize("make", [BackendCase, CpuCase], ids=["torch", "cpu"])
@pytest.mark.parametrize("seed", range(4))
def test_random_batches_match_the_reference_over_rounded_keys_and_values(seed, make, kind):
    seqs, options = random_case(seed)
    check(make(seqs, **options, head_size=[16, 48, 64, 128][seed]), kind)


@each_kind
def test_the_cpu_kernel_stores_the_same_bits_as_torch(kind):
    shared = SHARING["decodes, chunks and an unrelated sequence"]
    case, same = BackendCase(shared), CpuCase(shared)
    slow, fast = (x.backend(kv_cache_dtype=kind) for x in (case, same))
    for x in (case, same):
        x.key[3], x.value[2, 1], x.key[1, 0, 5] = 0.0, 1e-9, float("nan")
        # In the middle between two steps: of int8 with a scale of 1, and of bfloat16.
        x.key[0, 0] = torch.arange(case.head_size) + 0.5
        x.key[0, 0, -1] = 127.0
        x.value[0, 0, :2] = torch.tensor([257.0, 259.0]) / 256
        x.run(slow if x is case else fast)
    ours, theirs = (
        torch.cat(backend.read_blocks(0, [*range(case.num_blocks)])) for backend in (fast, slow)
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_an_int8_head_is_off_by_half_a_step_at_most_and_keeps_nan():
    x = torch.randn(50, 3, 64) * torch.logspace(-4, 4, 50)[:, None, None]
    numbers, scales = quantize_heads(x)
    assert numbers.abs().amax(-1).eq(127).all()
    error = (dequantize_heads(numbers, scales) - x).abs()
    assert (error <= 0.5001 * scales.unsqueeze(-1)).all() and error.max() > 0
    x[7, 1, 3], x[8, 2, 9] = float("nan"), float("inf")
    bad = dequantize_heads(*quantize_heads(x)).isnan().any(-1).nonzero().tolist()
    assert bad == [[7, 1], [8, 2]]


@on_any_device
@pytest.mark.parametrize(("version", "kind"), [("unified", INT8)])
def test_triton_reads_and_writes_what_torch_does(version, kind):
    case = BackendCase([Seq(0, 21), Seq(0, 1), Seq(0, 4)])
    spec = KVCacheSpec(1, 2, case.head_size, case.block_size, torch.float32, kind)
    triton = runtime.TritonAttentionBackend(version, spec, case.num_blocks, DEVICE, 6, 8, 128)
    torch_ = case.empty_backend(spec)
    for _ in range(2):  # a prompt, then the next token of its sequence
        torch.testing.assert_close(case.run(triton), case.run(torch_), rtol=2e-6, atol=2e-6)
        ids = case.block_tables[0]
        for ours, theirs in zip(
            triton.read_blocks(0, ids), torch_.read_blocks(0, ids), strict=True
        ):
            assert torch.equal(ours.cpu().flatten(0, 1)[:21], theirs.flatten(0, 1)[:21])
        query = torch.randn(1, 6, case.head_size)
        tables, lengths = torch.tensor([ids], dtype=torch.int32), torch.tensor([21])
        on_device = (x.to(DEVICE) for x in (query, tables, lengths.int()))
        torch.testing.assert_close(
            triton.attention_mass(0, *on_device).cpu(),
            torch_.attention_mass(0, query, tables, lengths),
        )
        case = BackendCase([Seq(20)], seed=1)
        case.block_tables, case.slot_mapping = [ids], [ids[5] * 4]


def test_int8_is_refused_where_it_cannot_run():
    odd = SimpleNamespace(num_hidden_layers=1, num_key_value_heads=1, head_size=10, windows=())
    with pytest.raises(ConfigError, match="head size that is a multiple of 4"):
        KVCacheSpec.of(odd, 16, torch.float32, INT8)
    with pytest.raises(ConfigError, match="kv_cache_dtype"):
        EngineConfig(kv_cache_dtype="int4")
