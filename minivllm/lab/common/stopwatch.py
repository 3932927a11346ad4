"""`Stopwatch`: measures how the time of a call divides into named parts, without changing the code.

The caller names a part for a method of one object. Time counts only for the innermost running part,
so that the parts add up to the whole time. On a GPU, use `waiting_clock`: otherwise a part only
gets the time in which its GPU work is launched. Watching costs half a microsecond per call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class PartWatcher:
    """Its subclasses have `begin(part)` and `end()`, called when a watched part begins and ends."""

    @contextmanager
    def methods(self, watched: list[tuple[object, str, str]]) -> Iterator[None]:
        """Watch methods of single objects, each given as (object, method name, part name)."""
        for owner, name, part in watched:
            setattr(owner, name, self._timed(getattr(owner, name), part))
        try:
            yield
        finally:
            for owner, name, _ in watched:
                delattr(owner, name)  # makes the class's own method visible again

    def _timed(self, method: Callable[..., Any], part: str) -> Callable[..., Any]:
        @wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self.begin(part)
            try:
                return method(*args, **kwargs)
            finally:
                self.end()

        return timed


class Stopwatch(PartWatcher):
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._running: list[str] = []
        self._since = 0.0
        self.seconds: dict[str, float] = {}
        """Part name -> seconds spent in the part."""

    def begin(self, part: str) -> None:
        self._count()
        self._running.append(part)

    def end(self) -> None:
        self._count()
        self._running.pop()

    def _count(self) -> None:
        now = self._now()
        if self._running:
            part = self._running[-1]
            self.seconds[part] = self.seconds.get(part, 0.0) + now - self._since
        self._since = now


def waiting_clock(now: Callable[[], float], device: torch.device) -> Callable[[], float]:
    """Return a clock that waits for all work on `device` before it reads `now`."""
    if device.type != "cuda":
        return now

    def wait_and_look() -> float:
        import torch

        torch.cuda.synchronize(device)
        return now()

    return wait_and_look
