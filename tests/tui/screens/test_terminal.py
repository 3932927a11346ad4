"""The commands in a real terminal (a pseudo-terminal, driven by keys): they start, obey, and leave it as it was."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.patience import SOON
from support.tui.terminals import Program

ROOT = Path(__file__).parents[3]
TRACES = ROOT / "docs/assets/traces"
LEFT, RIGHT, END = b"\x1b[D", b"\x1b[C", b"\x1b[F"

WRITER = """
import sys, time
with open(sys.argv[1], "rb") as whole, open(sys.argv[2], "wb") as growing:
    for number, line in enumerate(whole):
        growing.write(line)
        growing.flush()
        time.sleep(0.01 if number > 200 else 0)
"""
"""Another process that writes a recording, line by line."""

FAILING_DEMO = """
import sys
from minivllm.engine import stepper
from minivllm.cli import main
from minivllm.core.invariants import Violation

checks = []

def violated_later(scheduler, plan):
    checks.append(plan)
    return [Violation("free queue", "made up for this test")] if len(checks) == 8 else []

stepper.check_invariants = violated_later
sys.exit(main(["demo", "--model", "tiny-random"]))
"""
"""The demo on an engine that fails in its eighth step."""


def test_the_demo_starts_pauses_steps_back_goes_live_and_quits() -> None:
    with Program.minivllm("demo", "--model", "tiny-random", "--slow", "0.05") as demo:
        demo.wait_for(r"● LIVE")
        demo.wait_for(r"eve +DECODE|ada +DECODE")
        demo.press(b" ")
        demo.wait_for(r"PAUSED")
        demo.press(LEFT)
        behind = int(demo.wait_for(r"PAUSED, (\d+) steps? behind")[1])
        demo.press(LEFT)
        assert int(demo.wait_for(r"PAUSED, (\d+) steps behind")[1]) > behind
        demo.press(END)
        demo.wait_for(r"● LIVE")
        demo.press(b"q")
        assert demo.wait_for_end() == 0
        demo.check_it_is_restored()
        assert "The run was stopped before its end." in demo.after_the_screen()


def test_a_terminal_that_goes_away_takes_the_dashboard_with_it() -> None:
    with Program.minivllm("replay", TRACES / "burst.jsonl") as replay:
        replay.wait_for(r"Batch slots")
        replay.hang_up()
        assert replay.process.wait(timeout=SOON) == 128 + signal.SIGHUP


@pytest.mark.slow
def test_a_terminal_that_goes_away_in_the_middle_of_painting_takes_the_engine_with_it() -> None:
    """Textual's thread that writes ends by the first write that fails, and then nobody empties its queue."""
    with Program.minivllm("live", "--model", "tiny-random", "--ask", "on and on", "--slow", "0.02") as live:
        live.wait_for(r"ada +DECODE|DECODE")
        live.process.send_signal(signal.SIGSTOP)
        live.hang_up()
        live.process.send_signal(signal.SIGCONT)
        assert live.process.wait(timeout=SOON) == 128 + signal.SIGHUP


@pytest.mark.slow
def test_an_engine_that_fails_is_told_on_the_screen_and_after_it() -> None:
    with Program(sys.executable, "-c", FAILING_DEMO) as demo:
        demo.wait_for(r"The engine failed: free queue: made up for this test")
        demo.press(LEFT)
        demo.wait_for(r"PAUSED")
        demo.press(b"q")
        assert demo.wait_for_end() == 1
        demo.check_it_is_restored()
        after = demo.after_the_screen()
        assert "minivllm: free queue: made up for this test" in after and "Traceback" not in after


def test_a_replay_opens_where_it_is_told_and_goes_from_screen_to_screen() -> None:
    with Program.minivllm("replay", TRACES / "memory-pressure.jsonl", "--step", "93") as replay:
        replay.wait_for(r"step 93/267")
        for key, words in (
            (b"2", "Block inspector"),
            (b"3", "Chosen step"),
            (b"4", "Chosen request"),
            (b"5", "what it says"),
        ):
            replay.press(key)
            replay.wait_for(words)
        replay.press(RIGHT)
        replay.wait_for(r"step 94/267")
        replay.press(b"?")
        replay.wait_for("To the end of the next step")
        replay.press(b"\x1b")
        time.sleep(0.5)  # an escape is one only if nothing follows it at once: the q would be alt+q
        replay.press(b"q")
        assert replay.wait_for_end() == 0
        replay.check_it_is_restored()


@pytest.mark.slow
def test_an_unreadable_recording_among_several_is_told_and_left_out(tmp_path: Path) -> None:
    (empty := tmp_path / "empty.jsonl").touch()
    with Program.minivllm("replay", TRACES / "burst.jsonl", empty, TRACES / "beams.jsonl") as replay:
        replay.wait_for(r"burst.jsonl, 1 of 3")
        replay.press(b"\x0e")
        replay.wait_for(r"beams.jsonl, 3 of 3")
        replay.wait_for(r"empty")
        replay.press(b"q")
        assert replay.wait_for_end() == 0
        replay.check_it_is_restored()


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Path]:
    """A recording that another process is writing."""
    path = tmp_path / "growing.jsonl"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, TRACES / "burst.jsonl", path])
    yield path
    writer.kill()
    writer.wait()


@pytest.mark.slow
def test_attach_follows_a_recording_that_another_process_is_writing(growing: Path) -> None:
    with Program.minivllm("attach", growing) as attached:
        first = int(attached.wait_for(r"step (\d+).*● LIVE")[1])
        attached.press(b" ")
        attached.wait_for(r"PAUSED, \d+ steps? behind")
        attached.press(END)
        assert int(attached.wait_for(r"step (\d+).*● LIVE")[1]) > first
        attached.press(b"p")
        attached.wait_for("This engine is not in this process")
        own, its = os.getpriority(os.PRIO_PROCESS, 0), os.getpriority(os.PRIO_PROCESS, attached.process.pid)
        assert its == min(own + 10, 19), "the steps of an engine on this machine go first"
        attached.press(b"q")
        assert attached.wait_for_end() == 0
        attached.check_it_is_restored()


@pytest.mark.slow
def test_a_live_engine_is_asked_by_key(tmp_path: Path) -> None:
    log = tmp_path / "live.jsonl"
    with Program.minivllm("live", "--model", "tiny-random", "--slow", "0", "--record", log) as live:
        live.wait_for(r"● LIVE")
        live.press(b"a")
        live.wait_for("Ask the model")
        live.press(b"Why is the sky blue?\r")
        live.wait_for(r"DECODE")
        live.press(b"q")
        assert live.wait_for_end() == 0
        live.check_it_is_restored()
        assert f" in {log}: minivllm replay {log} opens it." in live.after_the_screen()
    events = [json.loads(line) for line in log.read_bytes().splitlines()]
    arrived = next(event for event in events if event["ev"] == "request.arrived")
    assert arrived["prompt"] == "Why is the sky blue?"


@pytest.mark.slow
def test_a_browser_is_a_terminal_too() -> None:
    """`textual serve` runs the command without a terminal, and talks to it in packets."""
    process = subprocess.Popen(
        [sys.executable, "-m", "minivllm", "replay", TRACES / "burst.jsonl", "--step", "9"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver", "COLUMNS": "120", "ROWS": "36"},
    )
    try:
        assert process.stdout.readline() == b"__GANGLION__\n"
        painted = b""
        while not re.search(rb"step .{0,40}9.{0,40}/", painted):
            kind, size = process.stdout.read(1), int.from_bytes(process.stdout.read(4), "big")
            assert kind in (b"D", b"M", b"P"), "the dashboard ended"
            painted += process.stdout.read(size)
        quit_ = b'{"type": "quit"}'
        process.stdin.write(b"M" + len(quit_).to_bytes(4, "big") + quit_)
        process.stdin.flush()
        process.communicate(timeout=SOON)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_key_or_a_signal_that_ends_it_leaves_the_terminal_as_it_was(sent: signal.Signals) -> None:
    with Program.minivllm("replay", TRACES / "burst.jsonl") as replay:
        replay.wait_for(r"Batch slots")
        if sent == signal.SIGINT:
            replay.press(b"\x03")
        else:
            replay.process.send_signal(sent)
        assert replay.wait_for_end() == (0 if sent == signal.SIGINT else 128 + sent)
        replay.check_it_is_restored()
        assert "Traceback" not in replay.after_the_screen()
