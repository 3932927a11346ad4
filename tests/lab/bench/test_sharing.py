"""Memory saved by sharing, with a real model of noise; the arithmetic is that of
`events/kv_usage.py`.
"""

import pytest

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.lab.bench.sharing import (
    ALPACA,
    SharingCase,
    make_prompts,
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
            engine, case, make_prompts(model.tokenizer, prompts.prompt_len, num_requests)
        )

    return measure


def test_six_beams_save_at_least_as_much_as_the_paper_says(saved):
    assert saved("beam", 6) >= 0.37


def test_beams_share_more_than_samples_and_many_more_than_few(saved):
    assert 0 < saved("parallel", 2) < saved("parallel", 4) < saved("parallel", 6) < saved("beam", 6)


def test_samples_save_what_the_blocks_of_their_prompt_take(saved):
    # Of 19 + 58 tokens one block is full when the samples part; the longer they get, the less it
    # is.
    assert 0.1 < saved("parallel", 4) < 0.5
