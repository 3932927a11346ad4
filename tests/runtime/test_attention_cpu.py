"""The CPU backend against the slow reference and against torch's; every slot that a query may not read holds NaN."""

import pytest
import torch
from attention_cases import SHARING, Seq, StepCase, random_case
from backend_cases import BackendCase, as_backend_layout

from minivllm.config import EngineConfig
from minivllm.engine import LLMEngine
from minivllm.errors import ConfigError
from minivllm.kernels.cpu_library import load_cpu_library
from minivllm.runtime.attention import choose_attention_backend
from minivllm.runtime.cpu_attention import CpuAttentionBackend
from minivllm.runtime.kv_cache import KVCacheSpec
from minivllm.runtime.models.layers import RotaryEmbedding

CPU = torch.device("cpu")
HEAD_SIZE = 32


class CpuCase(BackendCase):
    """A step and the CPU backend that takes it."""

    backend_class = CpuAttentionBackend


def check(case: StepCase) -> None:
    backend = case.backend()
    output = case.run(backend)
    torch.testing.assert_close(output.double(), case.reference(), rtol=1e-6, atol=1e-6)
    written = as_backend_layout(case.key_cache, case.value_cache).float()
    torch.testing.assert_close(backend.kv_caches[0], written, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("group", [1, 3, 4, 7])
@pytest.mark.parametrize("block_size", [1, 4, 16, 96])
def test_decodes_of_every_length_around_a_block_boundary_match_the_reference(block_size: int, group: int) -> None:
    lengths = sorted({1, block_size - 1, block_size, block_size + 1, 2 * block_size, 3 * block_size + 3} - {0})
    check(CpuCase([Seq(length - 1) for length in lengths], block_size=block_size, group=group))
    for length in lengths:
        check(CpuCase([Seq(length - 1)], block_size=block_size, group=group))


@pytest.mark.parametrize("head_size", [16, 32, 48, 64, 128, 256])
def test_heads_of_every_size_match_the_reference(head_size: int) -> None:
    check(CpuCase([Seq(150), Seq(0), Seq(9, 5), Seq(64, 1, 0, 8)], block_size=8, head_size=head_size))


@pytest.mark.parametrize("name", SHARING)
def test_attending_to_a_shared_prefix_once_matches_the_reference(name: str) -> None:
    check(CpuCase(SHARING[name]))


@pytest.mark.parametrize("seed", range(30))
def test_random_batches_with_random_sharing_match_the_reference(seed: int) -> None:
    seqs, options = random_case(seed)
    check(CpuCase(seqs, **options))


@pytest.mark.parametrize("seqs", [[Seq(5)], [Seq(0, 7)], [Seq(9), Seq(3, 6), Seq(40)]], ids=["decode", "chunk", "both"])
def test_rotating_while_writing_is_rotating_first(seqs: list[Seq]) -> None:
    case = CpuCase(seqs)
    query, key, value = case.query.float(), case.key.float(), case.value.float()
    torch.manual_seed(0)
    angles = torch.randn(len(query), 1, query.shape[-1] // 2)
    cos, sin = torch.cat((angles.cos(),) * 2, -1), torch.cat((-angles.sin(), angles.sin()), -1)
    rotated = [RotaryEmbedding.rotate(x, cos, sin) for x in (query, key)]
    first, then = case.backend(), case.backend()
    expected = first.forward(0, *rotated, value, first.build(case.metadata()))
    metadata = then.build(case.metadata())
    output = then.forward(0, query, key, value, metadata, (cos, sin))
    torch.testing.assert_close(output, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(then.kv_caches[0], first.kv_caches[0], rtol=1e-6, atol=1e-6, equal_nan=True)


def test_a_sequence_that_is_not_a_number_leaves_the_others_bit_for_bit_as_they_were() -> None:
    case = CpuCase([Seq(20), Seq(33), Seq(7)])
    backend = case.backend()
    clean = case.run(backend)
    case.query[1] = float("nan")
    spoiled = case.run(backend)
    assert spoiled[1].isnan().all()
    assert torch.equal(spoiled[[0, 2]], clean[[0, 2]])


def test_a_decode_gets_the_same_bits_alone_and_in_any_company() -> None:
    seqs = [Seq(200), Seq(3), Seq(77)]
    case = CpuCase(seqs)
    together = case.run(case.backend())
    backend, metadata = case.backend(), case.metadata()
    batch = [x.float() for x in (case.query, case.key, case.value)]
    for i in range(len(seqs)):
        alone = backend.build(metadata)
        (decodes,) = alone.decodes
        decodes.block_tables = decodes.block_tables[i : i + 1].contiguous()
        decodes.rows, decodes.num_tokens = decodes.rows[i : i + 1], decodes.num_tokens[i : i + 1]
        assert torch.equal(backend.forward(0, *batch, alone)[i], together[i])


def test_scores_of_any_size_are_weighed_without_overflow() -> None:
    case = CpuCase([Seq(150)])
    case.query *= 1e4
    output = case.run(case.backend())
    torch.testing.assert_close(output.double(), case.reference(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_left_to_torch_and_refused_by_name(dtype: torch.dtype) -> None:
    spec = KVCacheSpec(1, 1, HEAD_SIZE, 16, dtype)
    assert choose_attention_backend("auto", spec, CPU) == "torch"
    with pytest.raises(ConfigError, match="are float32, and the cache is"):
        choose_attention_backend("cpu", spec, CPU)


@pytest.mark.parametrize("head_size", [8, 24, 272])
def test_heads_that_are_no_whole_vectors_are_left_to_torch_and_refused_by_name(head_size: int) -> None:
    spec = KVCacheSpec(1, 1, head_size, 16, torch.float32)
    assert choose_attention_backend("auto", spec, CPU) == "torch"
    with pytest.raises(ConfigError, match="multiples of 16"):
        choose_attention_backend("cpu", spec, CPU)


@pytest.mark.parametrize(
    ("compiler", "why"),
    [("/no/such/compiler", "there is no C compiler"), ("false", "could not build the kernels")],
)
def test_without_a_compiler_that_works_torch_serves(compiler: str, why: str, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path))
    load_cpu_library.cache_clear()
    spec = KVCacheSpec(1, 1, HEAD_SIZE, 16, torch.float32)
    assert choose_attention_backend("auto", spec, CPU) == "torch"
    with pytest.raises(ConfigError, match=f"{why}.*Use attention_backend='torch'"):
        choose_attention_backend("cpu", spec, CPU)
    load_cpu_library.cache_clear()


def test_the_plain_path_can_be_had_by_name_and_says_the_same() -> None:
    tokens = {}
    for options in ({}, {"custom_ops": ["none"]}, {"attention_backend": "torch"}):
        config = EngineConfig(model="tiny-random", dtype="float32", device="cpu", seed=1, **options)
        engine = LLMEngine.from_config(config)
        tokens[str(options)] = _greedy(engine)
    assert len({str(one) for one in tokens.values()}) == 1


def _greedy(engine: LLMEngine) -> list[list[int]]:
    from minivllm.sampling_params import SamplingParams

    for number in range(3):
        prompt = {"prompt_token_ids": list(range(5 + 20 * number))}
        engine.add_request(str(number), prompt, SamplingParams(temperature=0, max_tokens=12, ignore_eos=True))
    outputs = {}
    while engine.has_unfinished_requests():
        outputs |= {output.request_id: output.outputs[0].token_ids for output in engine.step()}
    return list(outputs.values())
