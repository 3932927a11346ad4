"""`minivllm compare`, on the model that needs no download."""

import json
import time
from pathlib import Path

import pytest

from minivllm import cli
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.events.recording.recording import Recording
from minivllm.lab.compare.measure import measure_recording
from minivllm.runtime.model_runner import ModelRunner
from minivllm.runtime.step_result import Watch

SIDE_KEYS = {
    "kv_waste",
    "throughput_tokens_per_s",
    "max_running",
    "steps",
    "ttft_p50_s",
    "ttft_p99_s",
    "itl_p50_s",
    "itl_p99_s",
}


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict, str]:
    status = cli.main(["compare", "--model", "tiny-random", "--json", *arguments])
    said = capsys.readouterr()
    assert status == 0, said.err
    return json.loads(said.out), said.err


def test_two_configurations_run_the_same_trace_and_stand_side_by_side(capsys, tmp_path: Path):
    result, table = compare(
        capsys,
        "--a",
        "static+contiguous",
        "--b",
        "continuous+paged",
        "--scenario",
        "burst",
        "--record",
        str(tmp_path),
    )
    a, b = result["a"], result["b"]
    assert set(a) == set(b) and set(a) >= SIDE_KEYS
    assert result["identical_requests"] == 1.0
    assert a["steps"] > b["steps"]
    assert 0 <= b["kv_waste"] < a["kv_waste"] <= 1
    assert a["max_running"] <= b["max_running"] == 4
    assert "a: static+contiguous" in table and "b: continuous+paged" in table
    assert f"minivllm replay {tmp_path}/a.jsonl --with {tmp_path}/b.jsonl" in table
    for letter, side in (("a", a), ("b", b)):
        assert side["recording"] == str(tmp_path / f"{letter}.jsonl")
        assert Recording(side["recording"]).view_at_step(10**9).counters.finished_requests == 12
        # The table is the recording's, to the last digit.
        assert measure_recording(side["configuration"], Path(side["recording"])).as_json() == side


def test_what_else_the_machine_does_is_no_time_of_either_side(
    capsys, monkeypatch: pytest.MonkeyPatch
):
    run_step, put_aside_s, were_put_aside = ModelRunner.execute_model, 1.0, set()

    def put_aside(self: ModelRunner, plan: SchedulerOutput, watch: Watch):
        if self not in were_put_aside:
            were_put_aside.add(self)
            time.sleep(put_aside_s)  # as the system does it to a thread, when it lets others run
        return run_step(self, plan, watch)

    arguments = ("--scenario", "burst", "--a", "static", "--b", "continuous")
    monkeypatch.setattr(ModelRunner, "execute_model", put_aside)
    result, table = compare(capsys, *arguments)
    for side in (result["a"], result["b"]):
        assert 0 < side["seconds"] < put_aside_s
    assert len(were_put_aside) >= 2
    assert result["clock"] == "processor" and "in the same processor time" in table


def test_the_same_memory_in_bytes_becomes_the_same_blocks(capsys):
    result, _ = compare(capsys, "--scenario", "burst", "--kv-budget", str(1 << 20))
    # of 8 KiB: 2 layers, 2 heads of 16 for keys and for values, 16 tokens, 4 bytes
    assert result["num_blocks"] == 128
    assert all(Recording(result[side]["recording"]).header.num_blocks == 128 for side in "ab")


def test_a_plot_shows_both_sides(capsys, tmp_path: Path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "compare.svg"
    compare(capsys, "--scenario", "burst", "--plot", str(picture))
    text = picture.read_text(encoding="utf-8")
    assert text.startswith("<?xml") and text.rstrip().endswith("</svg>")
    assert text.count("static+contiguous") >= 4 and text.count("continuous+paged") >= 4


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--a", "buddy"], "has the part 'buddy'"),
        # Room for less than one reservation of 512 tokens.
        (
            ["--scenario", "burst", "--kv-budget", str(20 * 8192), "--model", "tiny-random"],
            "reserves max_model_len",
        ),
    ],
)
def test_wrong_usage_is_one_sentence(capsys, arguments, sentence):
    assert cli.main(["compare", *arguments]) == cli.USAGE_ERROR
    assert sentence in capsys.readouterr().err


def test_a_side_that_cannot_run_is_refused_before_the_other_has_run(capsys, tmp_path: Path):
    for arguments, sentence in (
        (["--a", "paged", "--b", "contiguous", "--scenario", "parallel-sampling"], "cannot share"),
        (
            ["--a", "paged", "--b", "contiguous", "--scenario", "burst", "--kv-budget", "40960"],
            "cache has",
        ),
    ):
        assert (
            cli.main(
                [
                    "compare",
                    *arguments,
                    "--model",
                    "tiny-random",
                    "--record",
                    str(tmp_path / "folder"),
                ]
            )
            > 0
        )
        captured = capsys.readouterr()
        assert sentence in captured.err and captured.out == ""
        assert not (tmp_path / "folder").exists(), "nothing ran"
