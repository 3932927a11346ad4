"""`Stopwatch`: where the time of a call goes, by part, while nothing of the code that runs knows of
it.

Methods of single objects, and torch modules, are given a part's name. While the watch is on, each
moment counts for the innermost part that is running, so the parts add up to the whole and nothing
counts twice. When it is off again, the objects are as they were.

Easy to get wrong: a device that works behind the host's back. The time given here must come from a
clock that waits for it (`waiting_clock`), or a part gets the time of its launch, and whoever waits
first gets everybody's work.

Watching costs about half a microsecond a call, so a watched step is a little longer than a plain
one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn


class PartWatcher(ABC):
    """Hears of parts that begin and end, while methods and modules are watched."""

    @abstractmethod
    def begin(self, part: str) -> None:
        """`part` runs from here on, inside of what ran before."""

    @abstractmethod
    def end(self) -> None:
        """The innermost part has ended."""

    @contextmanager
    def methods(self, watched: list[tuple[object, str, str]]) -> Iterator[None]:
        """Watch methods, each given as (object, name of the method, part), of these very objects
        and no others.
        """
        for owner, name, part in watched:
            setattr(owner, name, self._told(getattr(owner, name), part))
        try:
            yield
        finally:
            for owner, name, _ in watched:
                delattr(owner, name)  # what the object's class says is there again

    @contextmanager
    def modules(self, watched: list[tuple[nn.Module, str]]) -> Iterator[None]:
        """Watch what torch modules do when they are called, each given as (module, part)."""
        handles = []
        for module, part in watched:
            handles.append(module.register_forward_pre_hook(lambda *_, part=part: self.begin(part)))
            handles.append(module.register_forward_hook(lambda *_: self.end()))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _told(self, method: Callable[..., Any], part: str) -> Callable[..., Any]:
        @wraps(method)
        def told(*args: Any, **kwargs: Any) -> Any:
            self.begin(part)
            try:
                return method(*args, **kwargs)
            finally:
                self.end()

        return told


class Stopwatch(PartWatcher):
    """Adds up seconds by part, each moment to the innermost one."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._running: list[str] = []
        self._since = 0.0
        self.seconds: dict[str, float] = {}
        """Part -> seconds, since `clear`."""

    def clear(self) -> None:
        self.seconds = {}

    def begin(self, part: str) -> None:
        """See `PartWatcher.begin`."""
        self._count()
        self._running.append(part)

    def end(self) -> None:
        """See `PartWatcher.end`."""
        self._count()
        self._running.pop()

    def _count(self) -> None:
        now = self._now()
        if self._running:
            part = self._running[-1]
            self.seconds[part] = self.seconds.get(part, 0.0) + now - self._since
        self._since = now


def waiting_clock(now: Callable[[], float], device: torch.device) -> Callable[[], float]:
    """`now`, after all that was asked of `device` is done. On a CPU operations are done when they
    return.
    """
    if device.type != "cuda":
        return now

    def wait_and_look() -> float:
        import torch

        torch.cuda.synchronize(device)
        return now()

    return wait_and_look
