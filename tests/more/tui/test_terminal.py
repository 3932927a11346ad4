"""The commands in a pseudo-terminal, driven by keys: they start, obey, and restore it."""

import signal
from pathlib import Path

import pytest
from support.patience import SOON
from support.tui.terminals import Program

ROOT = Path(__file__).parents[3]
RECORDINGS = ROOT / "docs/assets/recordings"
LEFT, RIGHT, END = b"\x1b[D", b"\x1b[C", b"\x1b[F"


def test_the_demo_starts_pauses_steps_back_goes_live_and_quits() -> None:
    with Program.minivllm("demo", "--model", "tiny-random", "--slow", "0.05") as demo:
        demo.wait_for(r"● LIVE")
        demo.wait_for(r"eve +DECODE|ada +DECODE")
        demo.press(b" ")
        at = int(demo.wait_for(r"PAUSED at step (\d+)")[1])
        demo.press(LEFT)
        demo.press(LEFT)
        # The first one may only lead to the beginning of the step.
        demo.wait_for(rf"PAUSED at step ({at - 1}|{at - 2}) ")
        demo.press(END)
        demo.wait_for(r"● LIVE")
        demo.press(b"q")
        assert demo.wait_for_end() == 0
        demo.check_it_is_restored()
        assert "The run was stopped early." in demo.after_the_screen()


def test_closing_the_terminal_ends_the_dashboard() -> None:
    with Program.minivllm("replay", RECORDINGS / "burst.jsonl") as replay:
        replay.wait_for(r"Batch slots")
        replay.hang_up()
        assert replay.process.wait(timeout=SOON) == 128 + signal.SIGHUP


@pytest.mark.slow
def test_closing_the_terminal_while_painting_ends_the_engine() -> None:
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
def test_a_key_or_signal_that_ends_it_restores_the_terminal(sent: signal.Signals) -> None:
    with Program.minivllm("replay", RECORDINGS / "burst.jsonl") as replay:
        replay.wait_for(r"Batch slots")
        if sent == signal.SIGINT:
            replay.press(b"\x03")
        else:
            replay.process.send_signal(sent)
        assert replay.wait_for_end() == (0 if sent == signal.SIGINT else 128 + sent)
        replay.check_it_is_restored()
        assert "Traceback" not in replay.after_the_screen()


def test_a_terminal_with_few_colours_and_without_utf8_gets_only_those_and_ascii() -> None:
    with Program.minivllm(
        "replay", RECORDINGS / "burst.jsonl", TERM="xterm", PYTHONIOENCODING="latin-1"
    ) as replay:
        replay.wait_for(r"Batch slots")
        replay.wait_for(r"ada +(DECODE|PREFILL)")
        replay.press(b"q")
        assert replay.wait_for_end() == 0
        assert replay.written.isascii()
        assert b"[38;2;" not in replay.written and b";38;2;" not in replay.written
