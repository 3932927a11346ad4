"""`bench speculation` runs both sides on the same prompts and demands the same tokens."""

import json
from pathlib import Path

import pytest
from support.scripted_peer import python_with_vllm

from minivllm.cli import main
from minivllm.config import EngineConfig
from minivllm.configurations import parse_configuration
from minivllm.errors import BenchError
from minivllm.lab.bench import speculation
from minivllm.lab.bench.throughput.workloads import BenchRequest
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


@pytest.fixture
def sides(tiny: LoadedModel) -> list[speculation.OwnSide]:
    return speculation.own_sides(CONFIG, tiny)


def test_a_workload_reports_both_speeds_and_the_share_of_right_drafts(
    tiny: LoadedModel, sides: list[speculation.OwnSide]
) -> None:
    workload = speculation.Workload("copy", 2, copies=True, goal=1.0)
    requests = speculation.requests_of(workload, tiny.tokenizer, num_tokens=12)
    result = speculation.measure_workload(workload, sides, requests, num_rounds=2)
    assert result.speeds.plain > 0 and result.speeds.drafted > 0 and result.speeds.ratio > 0
    assert 0 <= result.accepted <= 1 <= result.tokens_per_step + 0.3


def test_other_tokens_than_without_drafts_are_an_error_and_no_speed(
    sides: list[speculation.OwnSide], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides[1], "generate", lambda requests: [[0] * 4])
    requests = [BenchRequest([5, 6], 4)]
    with pytest.raises(BenchError, match="wrote other tokens"):
        speculation.measure_workload(speculation.WORKLOADS[2], sides, requests, num_rounds=1)


def test_vllm_runs_the_same_prompts_once_without_drafts_and_once_with_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = tmp_path / "seen"
    keys = "'speculative_config', 'enable_prefix_caching'"
    saves = f"print(*(options[k] for k in ({keys})), file=open({str(seen)!r}, 'a'))"
    python = python_with_vllm(tmp_path, starting=saves)
    monkeypatch.setattr(speculation, "WORKLOADS", speculation.WORKLOADS[:1])
    asked = ["--vs", "vllm", "--peer-python", python, "--output-len", "4", "--rounds", "1"]
    assert main(["bench", "speculation", "--model", "tiny-random", "--json", *asked]) == 0
    lookup = {"method": "ngram", "num_speculative_tokens": 8}
    lookup |= {"prompt_lookup_max": 5, "prompt_lookup_min": 2}
    assert seen.read_text().splitlines() == ["None False", f"{lookup} False"]
    said = capsys.readouterr()
    (row,) = json.loads(said.out)["results"]
    assert row["vllm"]["speeds"]["plain"] > 0 and row["vllm"]["drafted_ratio"] > 0
    assert row["vllm"]["identical_sequences"] == 0, "this vLLM repeats the first token"
    assert "vLLM" in said.err and "0% of the outputs are the same" in said.err


def test_a_peer_and_its_python_belong_together(capsys: pytest.CaptureFixture[str]) -> None:
    for alone in (["--vs", "vllm"], ["--peer-python", "python3"]):
        assert main(["bench", "speculation", *alone]) == 1
        assert "belong together" in capsys.readouterr().err


def test_compare_knows_both_sides_by_name() -> None:
    options = {"block_size": 16}
    sides = [
        EngineConfig(**parse_configuration(name).options_for(options))
        for name in ("plain", "ngram+paged")
    ]
    assert sides[0].speculative_config is None
    assert sides[1].speculative_config.method == "ngram"
