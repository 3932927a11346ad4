"""`RaceRuns`: the requests of the recording, run again with two configurations, side by side.

The runs happen in another process (`minivllm.lab.race`), so the picture stays responsive and a race
can be cancelled. Its two recordings lie in a temporary folder until the race is closed.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from minivllm.errors import EventLogError
from minivllm.tui.control import Entry
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.sources.source import EventSource
from minivllm.tui.state.model import MODELS, DashboardModel
from minivllm.tui.time.transport import Transport

RaceState = Literal["running", "over", "failed"]
SECONDS_TO_WATCH = 30
"""The first speed lets the longer side end in about this time."""
_SECONDS_TO_END = 2.0
_SECONDS_PER_LOOK = 0.01


class RaceOutcome(NamedTuple):
    seconds: float
    waste: float
    """Mean over the steps, from 0 to 1."""


class RaceRuns:
    """Starts at once. Call `poll` often and `close` at the end."""

    def __init__(self, entry: Entry, source: EventSource[DashboardModel]) -> None:
        """Raises `EventLogError` if the events cannot be copied or there is no process."""
        self.names = self.asked = entry
        self.part = 0.0
        """How much is done, from 0 to 1."""
        self.state: RaceState = "running"
        self.sentence = ""
        """While it runs: nothing. Then notes on the runs, or why there is no race."""
        self.sides: tuple[Transport, Transport] | None = None
        """The recordings of both runs; the side that takes longer is first."""
        self.results: list[RaceOutcome] = []
        """Of the whole run of each side, in the order of `sides`."""
        self._folder = tempfile.TemporaryDirectory(prefix="minivllm-race-")
        try:
            command = [sys.executable, "-m", "minivllm.lab.race", self._log(source)]
            with open(self._path("errors"), "wb") as errors:
                self._process = subprocess.Popen(
                    [*command, self._folder.name, "--a", entry.a, "--b", entry.b],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                )
        except OSError as error:
            self._folder.cleanup()
            raise EventLogError(f"The race cannot start: {error.strerror}.") from error
        os.set_blocking(self._process.stdout.fileno(), False)
        self._unread = b""
        self._opened: tuple[Transport, Transport] | None = None

    def _log(self, source: EventSource[DashboardModel]) -> str:
        """A complete file is read in place; of a growing or damaged one, the events so far."""
        recording = source.recording
        if source.status.state in ("recording", "indexing") and recording.damage is None:
            return recording.name
        log = self._path("log")
        recording.save(log)
        return str(log)

    def _path(self, name: str) -> Path:
        return Path(self._folder.name) / f"{name}.jsonl"

    def poll(self) -> bool:
        """Read the progress, then the recordings, without waiting. Return whether it changed."""
        if self.state != "running":
            return False
        if self._opened is not None:
            return self._index(self._opened)
        ended = self._process.poll() is not None  # before reading, so that no line is missed
        self._unread += self._process.stdout.read() or b""
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if ended and self.state == "running" and self._opened is None:
            said = self._path("errors").read_text(errors="replace").strip().splitlines()
            self._fail(
                f"The race's process has ended: {said[-1] if said else 'it gives no reason'}."
            )
        return bool(lines) or ended

    def _take(self, report: dict) -> None:
        self.part = report.get("part", self.part)
        if "error" in report:
            self._fail(report["error"])
        elif "notes" in report:
            results = [RaceOutcome(*result) for result in report["results"]]
            order = sorted(range(2), key=lambda number: -results[number].seconds)
            self.names = Entry(*(self.names[number] for number in order))
            self.results = [results[number] for number in order]
            slower, faster = ("ab"[number] for number in order)
            self._opened = self._open(slower), self._open(faster)
            swapped = ["A is the side that takes longer."] if order[0] else []
            self.sentence = " ".join(swapped + report["notes"])

    def _index(self, sides: tuple[Transport, Transport]) -> bool:
        for side in sides:
            side.source.poll(_SECONDS_PER_LOOK)
        if any(side.source.status.state == "indexing" for side in sides):
            return False
        self.sides, self.state = sides, "over"
        return True

    def _open(self, side: str) -> Transport:
        return Transport(ReplaySource(self._path(side), codec=MODELS), "paused")

    def _fail(self, sentence: str) -> None:
        self.state, self.sentence = "failed", sentence

    def start_playing(self) -> None:
        """Play from the beginning, fast enough to be watched to the end."""
        first, _ = self.sides
        first.to_start()
        first.play_within(SECONDS_TO_WATCH, first.recording.last_step)

    def cancel(self) -> None:
        self._end_process()
        self._fail("The race was cancelled.")

    def close(self) -> None:
        """End the process and remove the recordings."""
        self._end_process()
        for side in self._opened or ():
            side.source.close()
        self._folder.cleanup()

    def _end_process(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
