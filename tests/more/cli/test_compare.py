"""`minivllm compare` on the model that needs no download."""

import json
from pathlib import Path

import pytest

from minivllm import cli
from minivllm.lab.compare.measure import measure_recording


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict, str]:
    status = cli.main(["compare", "--model", "tiny-random", "--json", *arguments])
    said = capsys.readouterr()
    assert status == 0, said.err
    return json.loads(said.out), said.err


def test_the_same_trace_runs_twice_and_both_recordings_are_measured(capsys, tmp_path):
    sides = ("--a", "static+contiguous", "--b", "continuous+paged", "--record", str(tmp_path))
    result, told = compare(capsys, *sides)
    a, b = result["a"], result["b"]
    assert result["clock"] == "processor" and result["identical_requests"] == 1.0
    assert a["steps"] > b["steps"] and 0 <= b["kv_waste"] < a["kv_waste"] <= 1
    assert f"minivllm replay {tmp_path}/a.jsonl --with {tmp_path}/b.jsonl" in told
    for side in (a, b):
        # The table equals the recording's figures to the last digit.
        assert measure_recording(Path(side["recording"])).figures.items() <= side.items()


def test_the_same_memory_in_int8_has_more_blocks_and_preempts_less(capsys):
    sides = ("--a", "kv-float32", "--b", "kv-int8", "--scenario", "memory-pressure")
    result, _ = compare(capsys, *sides, "--kv-budget", str(24 << 13))
    a, b = result["a"], result["b"]
    # 8 KiB a block: 2 layers, 2 heads of 16 for keys and for values, 16 tokens, 4 bytes. A head of
    # 16 numbers has 64 bytes in float32, and 16 with a scale of 4 in int8.
    assert (a["num_blocks"], b["num_blocks"]) == (24, 24 * 64 // 20)
    assert a["preemptions"] > b["preemptions"] == 0


def test_a_model_that_drafts_for_itself_is_always_right_and_needs_fewer_steps(capsys):
    drafts = {"method": "draft_model", "model": "tiny-random", "num_speculative_tokens": 3}
    options = ("--kv-budget", str(1 << 22), "--speculative-config", json.dumps(drafts))
    result, _ = compare(capsys, "--a", "plain", "--b", "draft_model", *options)
    a, b = result["a"], result["b"]
    assert a["draft_acceptance"] is None and b["draft_acceptance"] == 1.0
    assert b["steps"] < a["steps"] and result["identical_requests"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--a paged --b contiguous --scenario parallel-sampling", "cannot share"),
        ("--a plain --b draft_model", "needs a draft model"),
        # Less than one reservation of 512 tokens.
        ("--scenario burst --kv-budget 163840", "reserves max_model_len"),
        ("--scenario burst --kv-budget 1", "raise --kv-budget"),
        ("--a static+contiguous --scenario shared-prefix", "or --kv-budget"),
    ],
)
def test_a_side_that_cannot_run_is_refused_before_any_runs(capsys, tmp_path, arguments, sentence):
    record = ("--record", str(tmp_path / "folder"))
    assert cli.main(["compare", "--model", "tiny-random", *arguments.split(), *record]) > 0
    captured = capsys.readouterr()
    assert sentence in captured.err and captured.out == ""
    assert not (tmp_path / "folder").exists(), "nothing ran"
