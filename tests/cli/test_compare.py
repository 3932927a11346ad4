"""`minivllm compare` on the model that needs no download."""

import itertools
import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from minivllm import cli, clock
from minivllm.events.recording.recording import Recording
from minivllm.lab.compare.measure import measure_recording


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict, str]:
    status = cli.main(["compare", "--model", "tiny-random", "--json", *arguments])
    said = capsys.readouterr()
    assert status == 0, said.err
    return json.loads(said.out), said.err


@pytest.fixture
def an_hour_at_each_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that advances one hour at each reading."""
    hours = itertools.count(0.0, 3600.0)
    others = {"thread_time": time.thread_time, "sleep": time.sleep}
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: next(hours), **others))


def test_two_configurations_run_the_same_trace_in_processor_time_and_appear_side_by_side(
    capsys, tmp_path, an_hour_at_each_reading
):
    sides = ("--a", "static+contiguous", "--b", "continuous+paged")
    result, table = compare(capsys, *sides, "--scenario", "burst", "--record", str(tmp_path))
    a, b = result["a"], result["b"]
    assert set(a) == set(b) and set(a) >= {"throughput_tokens_per_s", "ttft_p50_s", "itl_p99_s"}
    assert result["clock"] == "processor" and "in the same processor time" in table
    assert max(a["seconds"], b["seconds"]) < 3600
    assert result["identical_requests"] == 1.0
    assert a["steps"] > b["steps"]
    assert 0 <= b["kv_waste"] < a["kv_waste"] <= 1
    assert a["max_running"] <= b["max_running"] == 4
    assert "a: static+contiguous" in table and "b: continuous+paged" in table
    assert f"minivllm replay {tmp_path}/a.jsonl --with {tmp_path}/b.jsonl" in table
    for letter, side in (("a", a), ("b", b)):
        assert side["recording"] == str(tmp_path / f"{letter}.jsonl")
        assert Recording(side["recording"]).view_at_step(10**9).counters.finished_requests == 12
        # The table equals the recording's figures to the last digit.
        assert measure_recording(side["configuration"], Path(side["recording"])).as_json() == side


def test_the_same_memory_in_bytes_becomes_the_same_blocks(capsys):
    result, _ = compare(capsys, "--scenario", "burst", "--kv-budget", str(1 << 20))
    # of 8 KiB: 2 layers, 2 heads of 16 for keys and for values, 16 tokens, 4 bytes
    assert result["num_blocks"] == 128
    assert all(Recording(result[side]["recording"]).header.num_blocks == 128 for side in "ab")


def test_the_same_memory_in_int8_has_more_blocks_and_preempts_less(capsys):
    sides = ("--a", "kv-float32", "--b", "kv-int8", "--scenario", "memory-pressure")
    result, table = compare(capsys, *sides)
    a, b = result["a"], result["b"]
    # a head of 16 numbers: 64 bytes in float32, and 16 with a scale of 4 in int8
    assert b["num_blocks"] == a["num_blocks"] * 64 // 20
    assert a["preemptions"] > b["preemptions"] == 0
    assert f"{a['num_blocks']} and {b['num_blocks']} blocks" in table


def test_a_model_that_drafts_for_itself_is_always_right_and_needs_fewer_steps(capsys):
    drafts = {"method": "draft_model", "model": "tiny-random", "num_speculative_tokens": 3}
    sides = ("--a", "plain", "--b", "draft_model", "--scenario", "burst")
    budget = ("--kv-budget", str(1 << 22))
    result, _ = compare(capsys, *sides, *budget, "--speculative-config", json.dumps(drafts))
    a, b = result["a"], result["b"]
    assert a["draft_acceptance"] is None and b["draft_acceptance"] == 1.0
    assert b["steps"] < a["steps"] and result["identical_requests"] == 1.0


def test_a_plot_shows_both_sides(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "compare.svg"
    compare(capsys, "--scenario", "burst", "--plot", str(picture))
    text = picture.read_text(encoding="utf-8")
    assert text.startswith("<?xml") and text.rstrip().endswith("</svg>")
    assert text.count("static+contiguous") >= 4 and text.count("continuous+paged") >= 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--a buddy", "the unknown part 'buddy'"),
        ("--a paged --b contiguous --scenario parallel-sampling", "cannot share"),
        ("--a paged --b contiguous --scenario burst --kv-budget 40960", "cache has"),
        ("--a plain --b draft_model", "does not say which draft model"),
        (
            '--a plain --b paged --speculative-config {"method":"ngram","num_speculative_tokens":2}',
            "neither side has the part ngram",
        ),
        # Less than one reservation of 512 tokens.
        ("--scenario burst --kv-budget 163840", "reserves max_model_len"),
    ],
)
def test_a_side_that_cannot_run_is_refused_before_the_other_has_run(
    capsys, tmp_path, arguments, sentence
):
    record = ("--record", str(tmp_path / "folder"))
    assert cli.main(["compare", "--model", "tiny-random", *arguments.split(), *record]) > 0
    captured = capsys.readouterr()
    assert sentence in captured.err and captured.out == ""
    assert not (tmp_path / "folder").exists(), "nothing ran"
