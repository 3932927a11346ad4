"""`bench speculation` runs both sides on the same prompts and demands the same tokens."""

from pathlib import Path

import pytest

from minivllm.config import EngineConfig
from minivllm.configurations import parse_configuration
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.lab.bench import speculation
from minivllm.runtime.loader import LoadedModel, load_model

CONFIG = EngineConfig(
    model="tiny-random",
    device="cpu",
    num_gpu_blocks_override=64,
    max_model_len=250,
    speculative_config={"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1},
)


@pytest.fixture(scope="module")
def tiny(tiny_random_path: Path) -> LoadedModel:
    return load_model(CONFIG)


def test_a_workload_reports_both_speeds_and_the_share_of_right_drafts(tiny: LoadedModel) -> None:
    workload = speculation.Workload("copy", 2, copies=True, goal=1.0)
    result = speculation.measure_workload(workload, CONFIG, tiny, num_rounds=2, num_tokens=12)
    assert result.plain > 0 and result.drafted > 0 and result.ratio > 0
    assert 0 <= result.accepted <= 1 <= result.tokens_per_step + 0.3


def test_other_tokens_than_without_drafts_are_an_error_and_no_speed(
    tiny: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_once = speculation.run_once

    def run_wrongly(engine: LLMEngine, prompts: list[list[int]], num_tokens: int):
        run = run_once(engine, prompts, num_tokens)
        if engine.config.speculative_config is not None:
            run.tokens[0][-1] += 1
        return run

    monkeypatch.setattr(speculation, "run_once", run_wrongly)
    workload = speculation.Workload("free", 1, copies=False, goal=1.0)
    with pytest.raises(BenchError, match="wrote other tokens"):
        speculation.measure_workload(workload, CONFIG, tiny, num_rounds=1, num_tokens=4)


def test_compare_knows_both_sides_by_name() -> None:
    options = {"block_size": 16}
    sides = [
        EngineConfig(**parse_configuration(name).options_for(options))
        for name in ("plain", "ngram+paged")
    ]
    assert sides[0].speculative_config is None
    assert sides[1].speculative_config.method == "ngram"
