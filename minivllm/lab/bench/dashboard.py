"""`minivllm bench dashboard`: how quickly the dashboard responds, and what drawing costs.

    paint      time until a replay shows its first picture
    screens    processor time of each screen while every frame shows a new step

Both run the real `minivllm replay` in a pseudo-terminal, without a model. The recording is of
`record_traffic`, whose pool is full: a block map in which nothing changes would cost nothing.
"""

import argparse
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from minivllm.errors import BenchError
from minivllm.lab.bench.events import add_num_events, record_traffic
from minivllm.lab.common.report import Report, tracked

PARTS = ("paint", "screens")
COLUMNS, ROWS = 120, 36
NUM_BLOCKS = 2048
NUM_PAINTS = 7
LIMIT_S = 60.0
SHORT_EVENTS = 5000
"""Events of a short recording: the time to the first picture must not depend on the length."""
SCREENS = {"overview": "1", "blocks": "2", "scheduler": "3", "requests": "4", "events": "5"}
"""Name of a screen -> the key that opens the screen."""
PLAYED_EVENTS = 400_000
"""About 2,100 steps, of which the screens show 700 from `FIRST_STEP`, where the pool is full."""
FIRST_STEP = 1000
STEPS_PER_SECOND = 16  # more than the dashboard has frames, so that each has a new step
PLAY = "+ "  # twice the usual speed, which is `STEPS_PER_SECOND`
SECONDS_PER_SCREEN, SETTLE_S = 6.0, 1.0
TOP_LINE = b"mstep \x1b[0m"
"""In the top line, a new style follows: once a frame, since every frame has a new step."""


class DashboardProcess:
    """Context manager: runs `minivllm replay ARGUMENTS` in a terminal until it is closed."""

    def __init__(self, *arguments: str) -> None:
        self._terminal, slave = pty.openpty()
        termios.tcsetwinsize(slave, (ROWS, COLUMNS))
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "minivllm", "replay", *arguments],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        )  # fmt: skip
        os.close(slave)

    def read(self, seconds: float, until: bytes = b"\0") -> bytes:
        """Read what it draws for some seconds, because a full terminal would block it."""
        output, deadline = b"", time.monotonic() + seconds
        while until not in output and (left := deadline - time.monotonic()) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                try:
                    output += os.read(self._terminal, 1 << 16)
                except OSError:  # on Linux: the dashboard has ended
                    break
        return output

    def wait_for(self, text: str) -> float:
        """Return the seconds from the process's start until `text` appears on the screen."""
        output = self.read(LIMIT_S, until=text.encode())
        if text.encode() not in output:
            raise BenchError(
                f"The dashboard did not show {text!r} in {LIMIT_S:.0f} seconds; its output ends"
                f" with {output[-300:]!r}."
            )
        return time.monotonic() - self._started

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def cpu_seconds(self) -> float:
        """Return the processor time used so far. Raises `BenchError` without /proc."""
        try:
            # The command's name, in parentheses, may contain any character.
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError as error:
            raise BenchError(
                "Processor time of another process is read from /proc: run this bench on Linux."
            ) from error
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> "DashboardProcess":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


def cpu_of_screens(log: Path) -> dict[str, tuple[float, float]]:
    """Return each screen's share of a core, and its frames a second: some may be left out."""
    shares = {}
    with DashboardProcess(str(log), "--step", str(FIRST_STEP)) as dashboard:
        dashboard.wait_for(f"step {FIRST_STEP:,}")
        dashboard.wait_for(f"/{PLAYED_EVENTS // 1000:,},")  # until then, it also indexes the rest
        dashboard.press(PLAY)
        for screen, key in tracked(SCREENS.items(), "screens"):
            dashboard.press(key)
            dashboard.read(SETTLE_S)
            started, used = time.monotonic(), dashboard.cpu_seconds()
            num_frames = dashboard.read(SECONDS_PER_SCREEN).count(TOP_LINE)
            used, seconds = dashboard.cpu_seconds() - used, time.monotonic() - started
            shares[screen] = used / seconds, num_frames / seconds
    return shares


def add_arguments(add: Callable[..., None]) -> None:
    what = "measure only this (default: both, which takes some minutes)"
    add("--part", what, dest="parts", action="append", choices=PARTS)
    add_num_events(add)


def measure(args: argparse.Namespace) -> Report:
    paints, shares, parts = {}, {}, args.parts or PARTS
    sizes = {"short": SHORT_EVENTS, "long": args.num_events} if "paint" in parts else {}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "recording.jsonl")
        for name, num_events in tracked(sizes.items(), "first pictures"):
            record_traffic(log, num_events, NUM_BLOCKS, seed=0)
            paints[name] = []
            for _ in range(NUM_PAINTS):
                with DashboardProcess(str(log)) as dashboard:
                    paints[name].append(dashboard.wait_for(f"{NUM_BLOCKS:,} blocks of"))
        if "screens" in parts:
            record_traffic(log, PLAYED_EVENTS, NUM_BLOCKS, seed=0)
            shares = cpu_of_screens(log)
    rows = [
        (f"first picture of a {name} recording", f"{statistics.median(times):.2f} s", "0.30 s")
        for name, times in paints.items()
    ] + [
        (f"{name}, of a core", f"{share:.1%}, {frames:.1f} frames/s", "10 %, 10.0 frames/s")
        for name, (share, frames) in shares.items()
    ]
    title = f"The dashboard at {COLUMNS}x{ROWS}, {NUM_BLOCKS:,} blocks"
    result = {"textual": version("textual"), "paint": paints, "screens": shares}
    return Report(title, ("", "measured", "goal"), rows, [], result)
