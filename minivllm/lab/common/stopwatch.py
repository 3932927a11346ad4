"""`Stopwatch`: measures where the time of a call goes, part by part, without changing the code.

Methods of single objects and torch modules get the name of a part. Each moment counts for the
innermost running part, so the parts add up to the whole. A GPU works asynchronously, so the clock
must wait for it (`waiting_clock`), or a part gets only the time of its launch. Watching costs about
half a microsecond per call.
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
    """Base class of watchers, which are called when watched parts begin and end."""

    @abstractmethod
    def begin(self, part: str) -> None:
        """Note that `part` starts, inside the part that ran before."""

    @abstractmethod
    def end(self) -> None:
        """Note that the innermost part has ended."""

    @contextmanager
    def methods(self, watched: list[tuple[object, str, str]]) -> Iterator[None]:
        """Watch methods of single objects, each given as (object, name of the method, part)."""
        for owner, name, part in watched:
            setattr(owner, name, self._told(getattr(owner, name), part))
        try:
            yield
        finally:
            for owner, name, _ in watched:
                delattr(owner, name)  # uncovers the class's method again

    @contextmanager
    def modules(self, watched: list[tuple[nn.Module, str]]) -> Iterator[None]:
        """Watch calls of torch modules, each given as (module, part)."""
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
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._running: list[str] = []
        self._since = 0.0
        self.seconds: dict[str, float] = {}
        """Part -> seconds since `clear`."""

    def clear(self) -> None:
        self.seconds = {}

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
    """Return a clock that first waits for all work on `device`; on a CPU, `now` itself."""
    if device.type != "cuda":
        return now

    def wait_and_look() -> float:
        import torch

        torch.cuda.synchronize(device)
        return now()

    return wait_and_look
