"""The events bench: realistic recordings, checked seeks, and fair pairs of steps."""

import dataclasses

import pytest

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.lab.bench import events
from minivllm.lab.bench.events import StepPair, measure, slowdown, time_step_pairs
from minivllm.lab.common.traffic import record_traffic


@pytest.fixture
def short_rounds(monkeypatch):
    short = dataclasses.replace(events._STEPS, output_len=(30, 30))
    monkeypatch.setattr(events, "_STEPS", short)


def test_the_same_seed_records_the_same_bytes(tmp_path):
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, seed in zip(paths, (3, 3, 4), strict=True):
        record_traffic(path, 2000, num_blocks=500, seed=seed)
    assert paths[0].read_bytes() == paths[1].read_bytes() != paths[2].read_bytes()


def test_a_random_step_of_each_pair_is_recorded(tmp_path, short_rounds):
    engine = LLMEngine.from_config(EngineConfig(model="tiny-random", dtype="float32"))
    pairs = time_step_pairs(engine, engine.tokenizer.vocab_size, 60, tmp_path / "log.jsonl")
    assert len(pairs) == 60 and all(pair.plain > 0 and pair.recorded > 0 for pair in pairs)
    # The log has holes, so it is read as lines and not folded.
    recording = [
        line for line in (tmp_path / "log.jsonl").read_text().splitlines() if '"step.end"' in line
    ]
    steps = [int(line.split('"step":')[1].split(",")[0]) for line in recording]
    first, second = (sum((step - steps[0]) % 2 == parity for step in steps) for parity in (0, 1))
    assert len(steps) >= 60 and first > 10 and second > 10
    # Every recorded step is a decode of the full batch.
    scheduled = (tmp_path / "log.jsonl").read_text().count('"step.scheduled"')
    assert scheduled == 16 * len(steps)


def test_the_slowdown_is_the_median_pair_and_not_moved_by_one_interruption():
    times = [(1.0, 1.01), (2.0, 2.04), (1.0, 50.0), (1.0, 1.0), (1.0, 1.02)]
    pairs = [StepPair(*pair) for pair in times]
    assert slowdown(pairs) == pytest.approx(0.02)


def test_the_result_has_every_promised_key(short_rounds):
    result = measure(
        "tiny-random", "float32", 1, num_pairs=4, num_events=3000, num_blocks=500, num_seeks=5
    )
    assert set(result) >= {"slowdown", "step_ms", "open_seconds", "index_seconds", "events"}
    assert result["seek_ms"]["median"] <= result["seek_ms"]["p99"] <= result["seek_ms"]["max"]
    assert result["recorded_step_ms"] > 0 and result["threads"] == 1
