"""`Workers`: the threads that tokenize and render chat templates, beside the event loop and beside
the engine.

A text of a mebibyte takes a second. Thirty of them in one queue would hold up a chat of ten words
for half a minute, so long texts have one worker of their own and wait for each other alone. A chat
template may take five seconds to fail, so chats have workers of their own, too, and a prompt
without a template does not wait for them.
"""

import gc
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from minivllm.runtime.cpu.heap import trim_heap

T = TypeVar("T")

LONG = 32 * 1024
"""Characters, or tokens. What is shorter takes some hundredths of a second at most."""


class Workers:
    """Starts its threads when there is work for them."""

    def __init__(self) -> None:
        self._short = ThreadPoolExecutor(max_workers=2, thread_name_prefix="minivllm-tokenizer")
        self._chats = ThreadPoolExecutor(max_workers=2, thread_name_prefix="minivllm-chat")
        self._long = ThreadPoolExecutor(max_workers=1, thread_name_prefix="minivllm-long-texts")
        self._tidying: Future[None] | None = None

    def submit(
        self, size: int, work: Callable[..., T], *args: object, renders_template: bool = False
    ) -> Future[T]:
        """Do `work(*args)` on a text of `size` characters, or tokens."""
        pool = self._long if size > LONG else self._chats if renders_template else self._short
        return pool.submit(work, *args)

    def tidy_up(self) -> None:
        """After a flood of large requests: give free memory back to the system, once the long texts
        before are done.
        """
        if self._tidying is None or self._tidying.done():
            self._tidying = self._long.submit(_tidy_up)

    def shutdown(self) -> None:
        """Forget what has not begun; do not wait for the rest."""
        for pool in (self._short, self._chats, self._long):
            pool.shutdown(wait=False, cancel_futures=True)


def _tidy_up() -> None:
    gc.collect()  # a refused body is in a cycle with the traceback of its error
    trim_heap()
