"""The dashboard's cost under load: each screen at a steady pace of steps, and a flood of events.

For the screens, `minivllm attach` in a terminal follows a recording that grows by fifteen steps a
second. For the flood, a thread sends events at a steady rate to the app, which runs without a
terminal and must process every event. The pool is full, with evictions and preemptions
(`traffic.py`): a block map in which nothing changes would cost nothing.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from minivllm.clock import MonotonicClock
from minivllm.errors import BenchError
from minivllm.events.recording.recording import Recording
from minivllm.lab.bench.dashboard.terminal import COLUMNS, ROWS, DashboardProcess
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.state.model import MODELS

if TYPE_CHECKING:
    from textual.pilot import Pilot

SCREENS = {"overview": "1", "blocks": "2", "scheduler": "3", "requests": "4", "events": "5"}
"""Name of a screen -> the key that opens the screen."""
_STEPS_PER_SECOND = 15  # more than the dashboard has frames, so that each has a new step
_STEPS_BEFORE = 1000
"""Number of steps after which the pool is full and as many requests finish as arrive."""
_HANG_SECONDS = 600.0
_SETTLE_SECONDS = 1.0
_PUT_EVERY = 0.005


class GrowingLog:
    """Context manager with a thread that copies a recording step by step at a steady pace."""

    def __init__(self, recording: Path, copy: Path, steps_per_second: float) -> None:
        self._steps = steps_of(recording)
        self._copy = open(copy, "wb", buffering=0)  # noqa: SIM115 - closed by close()
        self._copy.write(b"".join(islice(self._steps, _STEPS_BEFORE)))
        self._pace = 1 / steps_per_second
        self._stop = threading.Event()
        self.has_ended = False
        """Whether all steps are written, so that the dashboard is idle from now on."""
        self._thread = threading.Thread(target=self._write, name="growing log", daemon=True)

    def _write(self) -> None:
        clock = MonotonicClock()
        due = clock.now()
        for step in self._steps:
            due += self._pace
            if self._stop.wait(max(due - clock.now(), 0.0)):
                return
            self._copy.write(step)
        self.has_ended = True

    def __enter__(self) -> "GrowingLog":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()
        self._copy.close()


def steps_of(recording: Path) -> Iterator[bytes]:
    """Yield the lines of each step; the first step's lines include the header."""
    lines: list[bytes] = []
    with open(recording, "rb") as file:
        for line in file:
            lines.append(line)
            if line.startswith(b'{"ev":"step.end"'):
                yield b"".join(lines)
                lines = []


def cpu_of_screens(recording: Path, copy: Path, seconds: float) -> dict[str, float]:
    """Return for each screen the share of one core that the dashboard uses while showing it."""
    clock = MonotonicClock()
    shares: dict[str, float] = {}
    with (
        GrowingLog(recording, copy, _STEPS_PER_SECOND) as log,
        DashboardProcess("attach", str(copy)) as dashboard,
    ):
        dashboard.wait_for("LIVE")
        for screen, key in SCREENS.items():
            dashboard.press(key)
            time.sleep(_SETTLE_SECONDS)
            started, used = clock.now(), dashboard.cpu_seconds()
            time.sleep(seconds)
            shares[screen] = (dashboard.cpu_seconds() - used) / (clock.now() - started)
            if log.has_ended:
                raise BenchError(
                    "The recording ended before every screen was measured: use one with more"
                    " events."
                )
    return shares


@dataclass(frozen=True, slots=True)
class Flood:
    num_put: int
    num_lost: int
    events_per_second: float
    """Mean rate between sending the first event and processing the last event."""
    cpu: float
    """Share of one core, without the sending thread."""


def flood(recording: Path, num_events: int, events_per_second: float) -> Flood:
    """Send the first events of `recording` to a dashboard at a steady rate."""
    from minivllm.tui.app import FRAMES_PER_SECOND, DashboardApp

    replayed = Recording(recording, index=False)
    while len(replayed) < num_events and replayed.index_more(0.0):
        pass
    events = list(replayed.events(0, num_events))
    source = InProcessSource(replayed.header, codec=MODELS)
    replayed.close()
    app = DashboardApp(source)
    clock = MonotonicClock()
    producer_seconds = 0.0

    def put_all() -> None:
        nonlocal producer_seconds
        started, put = clock.now(), 0
        while put < len(events):
            due = min(int((clock.now() - started) * events_per_second), len(events))
            for event in events[put:due]:
                source.put(event)
            put = due
            time.sleep(_PUT_EVERY)
        producer_seconds = time.thread_time()

    result: list[Flood] = []

    async def script(pilot: "Pilot") -> None:
        await pilot.pause(_SETTLE_SECONDS)
        started, used = clock.now(), time.process_time()
        await asyncio.to_thread(put_all)
        # The next frames process the last events. No event is ever dropped, so this loop gives up
        # only if the dashboard hangs.
        while len(source.recording) < len(events) and clock.now() - started < _HANG_SECONDS:
            await pilot.pause(1 / FRAMES_PER_SECOND)
        seconds, cpu = clock.now() - started, time.process_time() - used - producer_seconds
        num_in = len(source.recording)
        result.append(Flood(len(events), len(events) - num_in, num_in / seconds, cpu / seconds))
        app.exit()

    app.run(headless=True, size=(COLUMNS, ROWS), auto_pilot=script)
    return result[0]
