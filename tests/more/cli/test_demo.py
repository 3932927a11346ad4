"""`minivllm demo --headless`: every scenario's counts, and the model that is there."""

import json
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.cli import main
from minivllm.cli.loading import load_engine
from minivllm.cli.serving import demo
from minivllm.core.invariants import Violation
from minivllm.events.recording.recording import Recording
from minivllm.events.types import BeamPruned, BeamsFound, RequestFinished
from minivllm.lessons.scenarios.house import STORIES
from minivllm.lessons.scenarios.scenarios import SCENARIOS

DEMO = ["demo", "--model", "house", "--headless"]
COUNTERS = {
    "preemptions": "num_preemptions", "prefix_hit_tokens": "prefix_cache_hits",
    "evicted_blocks": "evicted_blocks", "forked_sequences": "forked_sequences",
    "copied_blocks": "copied_blocks", "generated_tokens": "generation_tokens",
}  # fmt: skip
"""Number of the report -> its counter in the recording."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_demo_ends_with_its_counts_in_one_line_of_json(name, capsys, tmp_path):
    log = tmp_path / "run.jsonl"
    assert main([*DEMO, "--scenario", name, "--json", "--record", str(log)]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert (result["scenario"], result["model"]) == (name, "house")
    assert result["finished_requests"] == len(SCENARIOS[name].arrivals)
    assert result["invariant_violations"] == 0
    assert len(result["what_happened"]) == 3
    assert result["tokens_per_s"] == pytest.approx(result["generated_tokens"] / result["seconds"])
    # The recording agrees with the report.
    recording = Recording(log)
    counters = recording.view_at_step(recording.last_step).counters
    assert result["steps"] == recording.last_step
    for key, counter in COUNTERS.items():
        assert result[key] == getattr(counters, counter), key
    events = list(recording.events(0, len(recording)))
    over = {(e.seq_id.rpartition(".")[0], e.step) for e in events if isinstance(e, BeamsFound)}
    pruned = [(e.seq_id.rpartition(".")[0], e.step) for e in events if isinstance(e, BeamPruned)]
    assert result["pruned_beams"] == sum(beam not in over for beam in pruned)
    # The text report agrees too.
    assert all(sentence in captured.err for sentence in result["what_happened"])
    ended = [event for event in events if isinstance(event, RequestFinished)]
    assert captured.err.count("finishes") == len(ended) >= result["finished_requests"]
    assert captured.err.count("is preempted") == result["preemptions"]


def test_with_slow_the_run_stops_once_at_each_first(monkeypatch):
    stops = []
    headless = lambda self, _, config, __: self.run_headless(load_engine(config)) or ""  # noqa: E731
    monkeypatch.setattr(demo._Demo, "run_in_dashboard", headless)
    monkeypatch.setattr(demo, "terminal_attached", lambda: True)
    monkeypatch.setattr(demo, "time", Mock(sleep=stops.append))
    for slow, num_stops in (("0", 0), ("0.0001", 2)):  # preempted and evicted at once; ended
        assert main([*DEMO[:-1], "--scenario", "memory-pressure", "--slow", slow]) == 0
        assert stops == [demo.SECONDS_AT_A_FIRST] * num_stops


@pytest.fixture
def no_models(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No model in any cache, and no network."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return own_cache


def test_without_a_chat_model_the_house_model_tells_eight_stories(no_models, capsys):
    assert main(["demo", "--headless"]) == 0
    captured = capsys.readouterr()
    advice = [line for line in captured.err.splitlines() if "minivllm model fetch smollm2" in line]
    assert len(advice) == 1 and captured.err.startswith(advice[0])
    assert "on house (bf16 from the package minivllm)" in captured.out
    stories = STORIES["shared-prefix"]
    for user, story in stories.items():
        assert re.search(rf"^  {user} +{re.escape(story.prompt)}$", captured.out, re.MULTILINE)
    assert captured.out.count(" > ") == len(stories) == 8
    assert "8 of 8 requests finished" in captured.out and "\ufffd" not in captured.out
    assert [path.name for path in no_models.iterdir()] == ["kernels"], "nothing was downloaded"


def test_a_violated_invariant_is_counted_reported_and_a_failure(capsys, monkeypatch):
    calls = []

    def violated_once(scheduler, plan):
        calls.append(plan)
        return [Violation("free queue", "made up for this test")] if len(calls) == 20 else []

    monkeypatch.setattr("minivllm.engine.core.check_invariants", violated_once)
    assert main([*DEMO, "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["invariant_violations"] == 1
    assert captured.err.endswith("minivllm: free queue: made up for this test\n")
