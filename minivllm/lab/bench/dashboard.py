"""`minivllm bench dashboard`: how quickly the dashboard responds, and what drawing costs.

    paint      time until a replay shows its first picture
    screens    processor time of each screen while every frame shows a new step
    seek       time of a seek, including all state that the dashboard shows at that time

It needs no model: the recording is of `traffic.py`, whose pool is full, with evictions and
preemptions (a block map in which nothing changes would cost nothing). `paint` and `screens` run the
real `minivllm` command in a pseudo-terminal.
"""

import argparse
import fcntl
import os
import pty
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from minivllm.errors import BenchError
from minivllm.events.recording.fold_codec import FOLD
from minivllm.lab.bench.events import NUM_SEEKS, add_num_events, seek_rows, time_reading
from minivllm.lab.common.environment import describe_environment
from minivllm.lab.common.report import print_report, progress_bar
from minivllm.lab.common.traffic import record_traffic
from minivllm.tui.state.model import MODELS

PARTS = ("paint", "screens", "seek")
COLUMNS, ROWS = 120, 36
NUM_BLOCKS = 2048
NUM_PAINTS = 7
SHORT_EVENTS = 5000
"""Events of a short recording: the time to the first picture must not depend on the length."""
SCREENS = {"overview": "1", "blocks": "2", "scheduler": "3", "requests": "4", "events": "5"}
"""Name of a screen -> the key that opens the screen."""
SECONDS_PER_SCREEN, SETTLE_SECONDS = 6.0, 1.0
STEPS_PER_SECOND = 15  # more than the dashboard has frames, so that each has a new step
STEPS_BEFORE = 1000
"""Number of steps after which the pool is full and as many requests finish as arrive."""


class DashboardProcess:
    """Context manager: runs `minivllm ARGUMENTS` in a terminal until it is closed."""

    def __init__(self, *arguments: str) -> None:
        self._output = b""
        self._news = threading.Condition()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "minivllm", *arguments],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        )  # fmt: skip
        os.close(slave)
        # A full terminal would block the dashboard, so this thread reads all the time.
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError):  # on Linux: the other end is closed
            while data := os.read(self._master, 1 << 16):
                with self._news:
                    self._output = (self._output + data)[-(1 << 18) :]  # more than a screen
                    self._news.notify_all()

    def wait_for(self, text: str, seconds: float = 60.0) -> float:
        """Return the seconds from the process's start until `text` appears on the screen."""
        with self._news:
            if not self._news.wait_for(lambda: text.encode() in self._output, seconds):
                raise BenchError(
                    f"The dashboard never showed {text!r}; its output ends with"
                    f" {self._output[-300:]!r}."
                )
            return time.monotonic() - self._started

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

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
        with suppress(OSError):
            self.press("q")
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._master)


def first_paints(log: Path) -> list[float]:
    """Return seconds from the start of `minivllm replay` to its first picture."""
    seconds = []
    for _ in range(NUM_PAINTS):
        with DashboardProcess("replay", str(log)) as dashboard:
            seconds.append(dashboard.wait_for(f"{NUM_BLOCKS:,} blocks of"))
    return seconds


@contextmanager
def growing_copy(recording: Path, copy: Path) -> Iterator[threading.Thread]:
    """Copy a recording step by step at a steady pace, in the thread."""
    stop = threading.Event()
    with recording.open("rb") as lines, copy.open("wb") as file:

        def write_step() -> bool:
            for line in lines:
                file.write(line)
                if line.startswith(b'{"ev":"step.end"'):
                    file.flush()
                    return True
            return False

        def write_all() -> None:
            while write_step() and not stop.wait(1 / STEPS_PER_SECOND):
                pass

        for _ in range(STEPS_BEFORE):
            write_step()
        thread = threading.Thread(target=write_all, daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            stop.set()
            thread.join()


def cpu_of_screens(recording: Path, copy: Path) -> dict[str, float]:
    """Return for each screen the share of a core that the dashboard uses while showing it."""
    shares: dict[str, float] = {}
    with (
        growing_copy(recording, copy) as writer,
        DashboardProcess("attach", str(copy)) as dashboard,
    ):
        dashboard.wait_for("LIVE")
        for screen, key in SCREENS.items():
            dashboard.press(key)
            time.sleep(SETTLE_SECONDS)
            started, used = time.monotonic(), dashboard.cpu_seconds()
            time.sleep(SECONDS_PER_SCREEN)
            shares[screen] = (dashboard.cpu_seconds() - used) / (time.monotonic() - started)
            if not writer.is_alive():
                raise BenchError(
                    "The recording ended before every screen was measured: use one with more"
                    " events."
                )
    return shares


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--part",
        dest="parts",
        action="append",
        choices=PARTS,
        help=(
            "measure only this; may be given several times (default: all, which takes some minutes)"
        ),
    )
    add_num_events(parser)


def run(args: argparse.Namespace) -> int:
    result: dict[str, object] = {"bench": "dashboard", "blocks": NUM_BLOCKS}
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder, progress_bar() as progress:
        logs = {"long": Path(folder, "long.jsonl"), "short": Path(folder, "short.jsonl")}
        parts = args.parts or PARTS
        task = progress.add_task("recording", total=len(parts))
        progress.refresh()
        traffic = record_traffic(logs["long"], args.num_events, NUM_BLOCKS, seed=0)
        record_traffic(logs["short"], SHORT_EVENTS, NUM_BLOCKS, seed=0)
        for part in parts:
            progress.update(task, description=part, refresh=True)
            if part == "paint":
                result[part] = {name: first_paints(log) for name, log in logs.items()}
                for name, seconds in result[part].items():
                    median = f"{statistics.median(seconds):.2f} s"
                    rows.append((f"first picture of a {name} recording", median, "0.30 s"))
            elif part == "screens":
                result[part] = cpu_of_screens(logs["long"], Path(folder, "growing.jsonl"))
                for name, share in result[part].items():
                    title = f"{name}, {STEPS_PER_SECOND} steps/s, of a core"
                    rows.append((title, f"{share:.1%}", "10 %"))
            else:
                fold = time_reading(logs["long"], traffic, 1, FOLD, lambda view: view)
                models = time_reading(
                    logs["long"], traffic, NUM_SEEKS, MODELS, lambda view: view.fold
                )
                result[part] = models | {"index_seconds_of_folds": fold["index_seconds"]}
                ratio = models["index_seconds"] / fold["index_seconds"]
                rows += [(*row, "") for row in seek_rows(models)]
                rows.append(("indexing, times a fold's", f"{ratio:.1f}", ""))
            progress.update(task, advance=1, refresh=True)
    result |= describe_environment("msgspec", "textual")
    title = f"The dashboard at {COLUMNS}x{ROWS}, {NUM_BLOCKS:,} blocks"
    print_report(title, ("", "measured", "goal"), rows, [], result, args.json)
    return 0
