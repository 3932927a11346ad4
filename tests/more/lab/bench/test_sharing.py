"""Memory saved by sharing, with a real model of random weights."""

import pytest

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.lab.bench.sharing import (
    ALPACA,
    SharingCase,
    cut_prompts,
    measure_case,
    sharing_engine_config,
)
from minivllm.runtime.loader import load_model


@pytest.fixture(scope="module")
def saved():
    model = load_model(EngineConfig(model="tiny-random", dtype="float32"))

    def measure(method: str, width: int, prompts=ALPACA, num_requests: int = 2) -> float:
        case = SharingCase(method, width, prompts)
        config = sharing_engine_config(case, num_requests, "tiny-random", "float32")
        engine = LLMEngine.from_model(config, model)
        return measure_case(
            engine, case, cut_prompts(model.tokenizer, prompts.prompt_len, num_requests)
        )

    return measure


def test_beams_share_more_than_samples_and_many_more_than_few(saved):
    few, some, many, beams = (
        saved(*case) for case in (("parallel", 2), ("parallel", 4), ("parallel", 6), ("beam", 6))
    )
    assert 0 < few < some < many < beams
    assert beams >= 0.37, "the paper's number"
    # Of 19 + 58 tokens, one block is full when the samples fork. Longer answers save less.
    assert 0.1 < some < 0.5
