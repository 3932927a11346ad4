"""Programs in a terminal: a start that can be left, a demo's report, a chat, and restoring it."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from support.patience import SOON
from support.tui.terminals import Program

from minivllm.events.recording.recording import Recording

BURST = Path(__file__).parents[3] / "docs/assets/recordings/burst.jsonl"


@pytest.fixture
def checkpoint(tiny_random_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the tiny model, to be damaged."""
    monkeypatch.setenv("MINIVLLM_PROGRESS", str(tmp_path / "progress.json"))
    return Path(shutil.copytree(tiny_random_path, tmp_path / "copy"))


@pytest.fixture
def endless(checkpoint: Path) -> Path:
    """A checkpoint whose weights never come: the start waits for them forever."""
    (checkpoint / "model.safetensors").unlink()
    os.mkfifo(checkpoint / "model.safetensors")
    return checkpoint


@pytest.mark.parametrize(
    ("command", "key"), [("demo", b"q"), ("live", b"\x03"), ("lesson 4", b"q")]
)
def test_a_key_leaves_during_the_start_even_if_the_weights_never_come(command, key, endless):
    with Program.minivllm(*command.split(), "--model", endless) as program:
        program.wait_for("LOADING")
        program.wait_for("importing PyTorch")
        program.press(b"ls -l\r")
        program.press(key)
        assert program.wait_for_end() == 0
        program.check_it_is_restored()
        assert program.after_the_screen().strip() == ""
        assert program.num_unread_keys() == 0


def test_an_error_of_the_start_is_one_sentence_in_the_restored_terminal(checkpoint):
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    too_large = ["--model", "house", "--num-gpu-blocks-override", "100000000"]
    for status, options, words in (
        (1, ["demo", "--model", checkpoint], "model.safetensors"),
        (2, ["live", *too_large], "A KV cache of 100000000 blocks needs"),
    ):
        with Program.minivllm(*options) as program:
            assert program.wait_for_end() == status
            program.check_it_is_restored()
            (line,) = program.after_the_screen().strip().splitlines()
            assert line.startswith("minivllm: ") and words in line


def test_keys_steer_the_demo_and_one_leaves_it_with_a_report(tmp_path):
    log = tmp_path / "run.jsonl"
    options = ["--model", "tiny-random", "--scenario", "burst", "--json", "--record", log]
    with Program.minivllm("demo", "--slow", "0.05", *options) as program:
        program.wait_for("● LIVE")
        program.wait_for("DECODE")
        program.press(b" ")
        at = int(program.wait_for(r"PAUSED at step (\d+)")[1])
        for _ in range(2):  # the first one may only lead to the beginning of the step
            program.press(b"\x1b[D")
        program.wait_for(rf"PAUSED at step ({at - 1}|{at - 2}) ")
        program.press(b"\x1b[F")
        program.wait_for("● LIVE")
        program.press(b"q")
        assert program.wait_for_end() == 0
        program.check_it_is_restored()
        report = program.after_the_screen()
    assert "The run was stopped early." in report
    *_, result, following, recorded = report.strip().splitlines()
    assert "Next: minivllm lesson" in following and "Recorded up to step" in recorded
    result = json.loads(result)
    assert result["finished_requests"] < result["requests"] == 12
    assert Recording(log).last_step == result["steps"]


def test_ctrl_c_stops_an_answer_and_ctrl_d_ends_the_chat():
    options = ["--model", "tiny-random", "--num-gpu-blocks-override", "256", "--dtype", "float32"]
    with Program.minivllm("chat", *options, "--max-tokens", "1900", "--ignore-eos") as program:
        program.wait_for("you> ")
        program.press(b"Hello\n")
        program.wait_for(r"Hello\r\n(.|\n){4}")  # the echo and the first tokens
        program.press(b"\x03")
        tokens = program.wait_for(r"\((\d+) tokens, (?s:.*)you> ")[1]
        assert 0 < int(tokens) < 1900
        program.press(b"Again\n")
        program.wait_for(r"Again\r\n(.|\n){4}")
        program.press(b"\x03")
        cached = program.wait_for(r"; (\d+) of \d+ prompt tokens were cached(?s:.*)you> ")[1]
        assert int(cached) > 0
        program.press(b"\x04")
        assert program.wait_for_end() == 0


def test_ctrl_c_ends_a_demo_without_a_terminal_and_leaves_a_readable_recording(tmp_path):
    log = tmp_path / "run.jsonl"
    options = ["--model", "house", "--slow", "0.05", "--json", "--record", log]
    with Program.minivllm("demo", "--headless", *options) as program:
        program.wait_for("enters slot")
        program.process.send_signal(signal.SIGINT)
        assert program.wait_for_end() == 130
        said = program.written.decode()
    assert "Traceback" not in said and re.search(r"Recorded up to step \d+ in ", said)
    recording = Recording(log)
    end = recording.view_at_event(len(recording))
    assert end.counters.aborted_requests >= 1 and end.requests == {}
    assert all(block.ref_cnt == 0 for block in end.blocks)
    # Complete to its last byte: the writer was closed, not killed.
    lines = log.read_bytes().split(b"\n")
    assert lines[-1] == b"" and len(lines) == len(recording) + 2


# ---- a dashboard ----


def test_closing_the_terminal_ends_the_dashboard():
    with Program.minivllm("replay", BURST) as replay:
        replay.wait_for(r"Batch slots")
        replay.hang_up()
        assert replay.process.wait(timeout=SOON) == 128 + signal.SIGHUP


@pytest.mark.slow
def test_closing_the_terminal_while_painting_ends_the_engine():
    """After a failed write Textual's writer thread ends, and nothing empties its queue."""
    with Program.minivllm(
        "live", "--model", "tiny-random", "--ask", "on and on", "--slow", "0.02"
    ) as live:
        live.wait_for(r"ada +DECODE|DECODE")
        live.process.send_signal(signal.SIGSTOP)
        live.hang_up()
        live.process.send_signal(signal.SIGCONT)
        assert live.process.wait(timeout=SOON) == 128 + signal.SIGHUP


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_key_or_signal_that_ends_it_restores_the_terminal(sent):
    with Program.minivllm("replay", BURST) as replay:
        replay.wait_for(r"Batch slots")
        if sent == signal.SIGINT:
            replay.press(b"\x03")
        else:
            replay.process.send_signal(sent)
        assert replay.wait_for_end() == (0 if sent == signal.SIGINT else 128 + sent)
        replay.check_it_is_restored()
        assert "Traceback" not in replay.after_the_screen()


def test_a_terminal_with_few_colours_and_without_utf8_gets_only_those_and_ascii():
    with Program.minivllm("replay", BURST, TERM="xterm", PYTHONIOENCODING="latin-1") as replay:
        replay.wait_for(r"Batch slots")
        replay.wait_for(r"ada +(DECODE|PREFILL)")
        replay.press(b"q")
        assert replay.wait_for_end() == 0
        assert replay.written.isascii()
        assert b"[38;2;" not in replay.written and b";38;2;" not in replay.written
