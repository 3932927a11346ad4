"""Each linear backend's weight layout gives the products and rows of the plain weight."""

import pytest
import torch

from minivllm.config import EngineConfig
from minivllm.errors import ConfigError
from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.llm import LLM
from minivllm.outputs import CompletionOutput
from minivllm.runtime.loader import load_model
from minivllm.runtime.model.linear_backend import (
    CpuMatrix,
    OneDnnMatrix,
    TorchMatrix,
    choose_linear_backend,
)
from minivllm.sampling_params import SamplingParams

CPU = torch.device("cpu")


@pytest.mark.parametrize("make_matrix", [CpuMatrix, OneDnnMatrix, TorchMatrix])
@pytest.mark.parametrize("is_table", [False, True])
@pytest.mark.parametrize("shape", [(64, 48), (50, 32), (7, 33), (1000, 16)])
def test_all_backends_give_the_product_of_the_plain_weight_and_the_rows_of_a_table(
    make_matrix, shape, is_table
):
    torch.manual_seed(0)
    weight, bias = torch.randn(shape), torch.randn(shape[0])
    matrix = make_matrix(weight, is_table)
    for num_rows in (0, 1, 5, 40):
        x = torch.randn(num_rows, shape[1])
        for our_bias in (None, bias):
            expected = torch.nn.functional.linear(x, weight, our_bias)
            actual = matrix.multiply(x, our_bias)
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    if is_table:
        ids = torch.tensor([0, shape[0] - 1, 3, 3])
        assert torch.equal(matrix.rows(ids), weight[ids])


@pytest.mark.parametrize("name", ["cpu", "onednn", "torch"])
def test_a_bfloat16_matrix_of_any_backend_takes_and_gives_float32(name):
    try:
        make_matrix = choose_linear_backend(name, torch.bfloat16, CPU)
    except ConfigError as error:
        pytest.skip(str(error))
    torch.manual_seed(0)
    weight, x, bias = torch.randn(50, 48).bfloat16(), torch.randn(5, 48), torch.randn(50)
    matrix = make_matrix(weight, True)
    product = matrix.multiply(x, bias)
    expected = x.bfloat16().float() @ weight.float().T + bias
    tolerance = 1e-5 if name == "cpu" else 2e-2  # the others round their results
    torch.testing.assert_close(product, expected, rtol=tolerance, atol=tolerance)
    rows = matrix.rows(torch.tensor([0, 49, 3]))
    assert torch.equal(rows, weight[[0, 49, 3]].float())


def test_bfloat16_without_a_compiler_says_so_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "/no/such/compiler")
    load_cpu_library.cache_clear()
    said = []
    options = {"dtype": "bfloat16", "device": "cpu"}
    model = load_model(EngineConfig(model="tiny-random", **options), said.append)
    load_cpu_library.cache_clear()
    assert model.decoder.embed_tokens(torch.tensor([1])).isfinite().all()
    assert [sentence for sentence in said if "bfloat16 products are computed by torch" in sentence]


def test_auto_chooses_the_fastest_available_backend(monkeypatch):
    assert choose_linear_backend("auto", torch.float32, torch.device("cuda")) is TorchMatrix

    monkeypatch.setenv("CC", "/no/such/compiler")
    load_cpu_library.cache_clear()
    assert choose_linear_backend("auto", torch.float32, CPU) is OneDnnMatrix
    why = (
        r"linear_backend cpu cannot run here: there is no C compiler \(.*\). Use"
        r" linear_backend='auto'.$"
    )
    with pytest.raises(ConfigError, match=why):
        choose_linear_backend("cpu", torch.float32, CPU)
    load_cpu_library.cache_clear()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert choose_linear_backend("auto", torch.float32, CPU) is TorchMatrix


@pytest.mark.parametrize(
    ("name", "dtype", "device", "why"),
    [
        ("cpu", torch.float16, "cpu", "float32 and bfloat16, and the model is float16"),
        ("cpu", torch.float32, "cuda", "the device is cuda"),
        ("onednn", torch.float32, "cuda", "the device is cuda"),
        ("onednn", torch.float64, "cpu", "oneDNN cannot multiply float64"),
        ("blas", torch.float32, "cpu", "one of auto, cpu, onednn, torch; got 'blas'"),
    ],
)
def test_an_unavailable_backend_is_refused_by_name(name, dtype, device, why):
    with pytest.raises(ConfigError, match=why):
        choose_linear_backend(name, dtype, torch.device(device))


def has_cpu_kernel() -> bool:
    try:
        return isinstance(
            choose_linear_backend("cpu", torch.float32, CPU)(torch.zeros(16, 1), False), CpuMatrix
        )
    except ConfigError:
        return False


needs_avx512 = pytest.mark.skipif(
    not has_cpu_kernel(), reason="linear_backend cpu needs AVX-512 and a C compiler"
)


def generate(prompts: list[list[int]], **options) -> list[CompletionOutput]:
    llm = LLM(model="tiny-random", device="cpu", **options)
    params = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True, logprobs=3)
    outputs = llm.generate(
        [{"prompt_token_ids": prompt} for prompt in prompts], params, use_tqdm=False
    )
    return [output.outputs[0] for output in outputs]


@needs_avx512
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_without_shared_prefixes_a_schedule_changes_no_bit_of_a_logit(dtype):
    prompts = [
        [(7 * i + j) % 90 + 3 for j in range(length)] for i, length in enumerate((1, 9, 40, 70, 33))
    ]
    always = {"dtype": dtype, "enable_prefix_caching": False}
    alone = [generate([prompt], **always)[0] for prompt in prompts]
    for options in ({}, {"max_num_batched_tokens": 18}, {"max_num_seqs": 2, "block_size": 4}):
        together = generate(prompts, **always, **options)
        assert [output.logprobs for output in together] == [output.logprobs for output in alone], (
            options
        )
