"""Waits for a source of the dashboard."""

import time
from collections.abc import Callable

from minivllm.events.types import Event
from minivllm.tui.sources.source import EventSource
from support.patience import SOON


def poll_until(source: EventSource, condition: Callable[[], bool]) -> None:
    """Poll as a dashboard does until the condition holds."""
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline, source.status
        source.poll(0.01)
        time.sleep(0.001)


def all_events(source: EventSource) -> list[Event]:
    return list(source.recording.events(0, len(source.recording)))
