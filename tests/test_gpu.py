"""On a CUDA device the same requests give the same tokens. Not part of `make test`: `make test-gpu` runs it."""

import pytest
import torch

from minivllm import LLM, SamplingParams

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine"),
]


@pytest.mark.parametrize("num_blocks", [64, 12])
def test_greedy_tokens_on_cuda_equal_those_on_the_cpu(tiny_random_path, num_blocks):
    prompts = ["Hello", "Hello there, how are you?", "x", "Once upon a time in a land far away"]
    params = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    tokens = {}
    for device in ("cpu", "cuda"):
        llm = LLM(
            model="tiny-random",
            device=device,
            dtype="float32",
            num_gpu_blocks_override=num_blocks,
            max_num_batched_tokens=32,
            check_invariants=True,
        )
        tokens[device] = [output.outputs[0].token_ids for output in llm.generate(prompts, params, use_tqdm=False)]
    assert tokens["cuda"] == tokens["cpu"]


def test_without_an_override_the_cache_takes_what_the_utilization_leaves(tiny_random_path):
    small = LLM(model="tiny-random", device="cuda", gpu_memory_utilization=0.3)
    num_small = len(small.llm_engine.inspect().free_queue)
    del small
    torch.cuda.empty_cache()
    large = LLM(model="tiny-random", device="cuda", gpu_memory_utilization=0.6)
    assert len(large.llm_engine.inspect().free_queue) > 1.5 * num_small
