"""Events cross from the engine's thread to the dashboard without loss, without order lost, without waiting."""

import subprocess
import sys
from threading import Thread

import pytest

from minivllm.tui.source import InProcessSource


def test_events_come_out_in_order_and_only_once(shared_prefix) -> None:
    events = shared_prefix.run(10).events
    source = InProcessSource(shared_prefix.header, events)
    assert source.drain(3) == events[:3]
    assert source.drain(10_000) == events[3:]
    assert source.drain(10_000) == []


def test_nothing_is_lost_between_two_threads(shared_prefix) -> None:
    event = shared_prefix.run(1).events[0]
    source, count, got = InProcessSource(shared_prefix.header), 100_000, 0

    def produce() -> None:
        for _ in range(count):
            source.put(event)

    producer = Thread(target=produce)
    producer.start()
    while producer.is_alive():
        got += len(source.drain(5_000))
    producer.join()
    while drained := source.drain(5_000):
        got += len(drained)
    assert got == count


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        (
            "minivllm.tui.app",
            ("torch", "transformers", "numpy", "minivllm.core", "minivllm.runtime", "minivllm.engine"),
        ),
        ("minivllm.tui.source", ("torch", "textual", "rich")),
        ("minivllm.tui.model", ("torch", "textual")),
    ],
)
def test_a_module_loads_nothing_that_it_does_not_need(module: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(*[name for name in {absent!r} if name in sys.modules])"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.split() == []
