"""The commands in a pseudo-terminal, driven by keys: they start, obey, and restore it."""

import signal
from pathlib import Path

import pytest
from support.patience import SOON
from support.tui.terminals import Program

BURST = Path(__file__).parents[3] / "docs/assets/recordings/burst.jsonl"


def test_closing_the_terminal_ends_the_dashboard() -> None:
    with Program.minivllm("replay", BURST) as replay:
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
    with Program.minivllm("replay", BURST) as replay:
        replay.wait_for(r"Batch slots")
        if sent == signal.SIGINT:
            replay.press(b"\x03")
        else:
            replay.process.send_signal(sent)
        assert replay.wait_for_end() == (0 if sent == signal.SIGINT else 128 + sent)
        replay.check_it_is_restored()
        assert "Traceback" not in replay.after_the_screen()


def test_a_terminal_with_few_colours_and_without_utf8_gets_only_those_and_ascii() -> None:
    with Program.minivllm("replay", BURST, TERM="xterm", PYTHONIOENCODING="latin-1") as replay:
        replay.wait_for(r"Batch slots")
        replay.wait_for(r"ada +(DECODE|PREFILL)")
        replay.press(b"q")
        assert replay.wait_for_end() == 0
        assert replay.written.isascii()
        assert b"[38;2;" not in replay.written and b";38;2;" not in replay.written
