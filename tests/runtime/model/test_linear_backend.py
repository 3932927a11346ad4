"""Each linear backend's weight layout gives the products and rows of the plain weight."""

import pytest
import torch
from support.model.needs import cpu_ops

from minivllm.errors import ConfigError
from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.llm import LLM
from minivllm.outputs import CompletionOutput
from minivllm.runtime.model.linear_backend import TorchMatrix, choose_linear_backend
from minivllm.sampling_params import SamplingParams

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["cpu", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(64, 48), (7, 33), (1000, 16)])
def test_all_backends_give_the_product_of_the_plain_weight_and_the_rows_of_a_table(
    name, dtype, shape
):
    """Inputs and results are float32, whatever the dtype of the weight."""
    if name == "cpu":
        cpu_ops()
    make_matrix = choose_linear_backend(name, dtype, CPU)
    torch.manual_seed(0)
    weight, bias = torch.randn(shape).to(dtype), torch.randn(shape[0])
    # torch rounds its results to bfloat16.
    tolerance = 1e-4 if dtype == torch.float32 or name == "cpu" else 2e-2
    for is_read in (False, True):
        matrix = make_matrix(weight, is_read)
        for num_rows in (0, 1, 5, 40):
            x = torch.randn(num_rows, shape[1])
            plain = x.to(dtype).float() @ weight.float().T
            for our_bias in (None, bias):
                expected = plain if our_bias is None else plain + bias
                actual = matrix.multiply(x, our_bias)
                torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
    ids = torch.tensor([0, shape[0] - 1, 3, 3])
    assert torch.equal(matrix.rows(ids), weight[ids].float())
    assert matrix.num_bytes >= weight.numel() * weight.itemsize


def test_without_a_compiler_auto_takes_the_next_backend_and_says_so_in_one_sentence(monkeypatch):
    assert choose_linear_backend("auto", torch.float32, torch.device("cuda")).func is TorchMatrix

    monkeypatch.setenv("CC", "/no/such/compiler")
    load_cpu_library.cache_clear()
    assert choose_linear_backend("auto", torch.float32, CPU).func is TorchMatrix
    why = (
        "linear_backend cpu cannot run here: there is no program /no/such/compiler, which CC names."
        " Use linear_backend='auto'.$"
    )
    with pytest.raises(ConfigError, match=why):
        choose_linear_backend("cpu", torch.float32, CPU)
    with pytest.raises(ConfigError, match="float32 and bfloat16, and the model is float16"):
        choose_linear_backend("cpu", torch.float16, CPU)
    load_cpu_library.cache_clear()


def generate(prompts: list[list[int]], **options) -> list[CompletionOutput]:
    llm = LLM(model="tiny-random", device="cpu", num_gpu_blocks_override=200, **options)
    params = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True, logprobs=3)
    inputs = [{"prompt_token_ids": prompt} for prompt in prompts]
    return [output.outputs[0] for output in llm.generate(inputs, params, use_tqdm=False)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_without_shared_prefixes_a_schedule_changes_no_bit_of_a_logit(dtype):
    cpu_ops()
    prompts = [
        [(7 * i + j) % 90 + 3 for j in range(length)] for i, length in enumerate((1, 9, 40, 70, 33))
    ]
    always = {"dtype": dtype, "enable_prefix_caching": False}
    alone = [generate([prompt], **always)[0] for prompt in prompts]
    for options in ({}, {"max_num_batched_tokens": 18}, {"max_num_seqs": 2, "block_size": 4}):
        together = generate(prompts, **always, **options)
        for ours, expected in zip(together, alone, strict=True):
            assert ours.logprobs == expected.logprobs, options
