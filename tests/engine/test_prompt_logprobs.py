"""`prompt_logprobs`: complete and right with chunks, preemptions and cached blocks."""

import math

import pytest
import torch

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.outputs import RequestOutput
from minivllm.runtime.loader import LoadedModel, load_model
from minivllm.sampling_params import SamplingParams

PROMPTS = [[(start + 11 * i) % 250 for i in range(60)] for start in (3, 3, 40)]


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(EngineConfig(model="tiny-random", dtype="float32"))


@pytest.fixture(scope="module")
def expected(tiny_random_path) -> list[torch.Tensor]:
    from transformers import AutoModelForCausalLM

    peer = AutoModelForCausalLM.from_pretrained(tiny_random_path, dtype=torch.float32).eval()
    with torch.inference_mode():
        return [
            peer(torch.tensor([prompt])).logits[0].double().log_softmax(-1) for prompt in PROMPTS
        ]


def run(model: LoadedModel, **options: object) -> tuple[dict[str, RequestOutput], list[ev.Event]]:
    options = {"block_size": 4, "num_gpu_blocks_override": 100, "dtype": "float32", **options}
    config = EngineConfig(model="tiny-random", check_invariants=True, **options)
    engine = LLMEngine.from_model(config, model)
    events: list[ev.Event] = []
    engine.subscribe(events.append)
    for i, prompt in enumerate(PROMPTS):
        params = SamplingParams(temperature=0, max_tokens=30, prompt_logprobs=2, ignore_eos=True)
        engine.add_request(str(i), {"prompt_token_ids": prompt}, params)
    outputs: dict[str, RequestOutput] = {}
    while engine.has_unfinished_requests():
        outputs |= {output.request_id: output for output in engine.step()}
    return outputs, events


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_num_batched_tokens": 33, "num_gpu_blocks_override": 40},
    ],
    ids=["whole", "chunks and preemptions"],
)
def test_prompt_logprobs_equal_those_of_transformers(model, expected, options):
    outputs, events = run(model, **options)
    preempted = any(type(event) is ev.RequestPreempted for event in events)
    assert preempted is ("num_gpu_blocks_override" in options)
    for i, prompt in enumerate(PROMPTS):
        found = outputs[str(i)].prompt_logprobs
        assert len(found) == len(prompt)
        assert found[0] is None
        for position in range(1, len(prompt)):
            row, entries = expected[i][position - 1], found[position]
            assert next(iter(entries)) == prompt[position]
            assert 2 <= len(entries) <= 3
            for token_id, entry in entries.items():
                assert math.isclose(entry.logprob, row[token_id].item(), abs_tol=1e-4)
            assert min(entry.rank for entry in entries.values()) == 1
