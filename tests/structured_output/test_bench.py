"""`bench structured` counts steps with masks and with jump-forward, and demands the same tokens."""

import json

import pytest

from minivllm.cli import main
from minivllm.config import EngineConfig
from minivllm.errors import BenchError
from minivllm.lab.bench import structured
from minivllm.lab.bench.throughput.workloads import BenchRequest

CONFIG = EngineConfig(
    model="house",
    device="cpu",
    attention_backend="torch",
    num_gpu_blocks_override=32,
    max_model_len=128,
    speculative_config={
        "method": "ngram",
        "num_speculative_tokens": 8,
        "prompt_lookup_min": structured.NEVER_FOUND,
        "prompt_lookup_max": structured.NEVER_FOUND,
    },
)


def test_forced_tokens_save_steps_and_masks_none(house) -> None:
    requests = [BenchRequest(house.tokenizer.encode(text), 40) for text in ("A fox", "Two hens")]
    sides = structured.sides_of(CONFIG, house)
    result = structured.measure_sides(sides, requests, num_rounds=2)
    assert result.steps == 40 and result.jumped_steps < 30
    assert min(result.free_step_ms, result.masked_step_ms, result.mask_ratio) > 0


def test_other_tokens_than_without_drafts_are_an_error_and_no_speed(house, monkeypatch) -> None:
    sides = structured.sides_of(CONFIG, house)
    monkeypatch.setattr(sides[2], "generate", lambda requests: [[0] * 4])
    with pytest.raises(BenchError, match="wrote other tokens"):
        structured.measure_sides(sides, [BenchRequest([5, 6], 4)], num_rounds=1)


def test_the_command_reports_steps_and_ratios(capsys) -> None:
    asked = ["--model", "house", "--output-len", "12", "--rounds", "1", "--json"]
    assert main(["bench", "structured", *asked]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)["result"]
    assert result["num_requests"] == 16 and result["jumped_steps"] <= result["steps"]
    assert "of free's step (goal: at most 1.05)" in " ".join(said.err.split())
