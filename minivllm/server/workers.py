"""`Workers`: threads for tokenizing, chat templates and grammars, besides event loop and engine.

Tokenizing a mebibyte takes a second, and a chat template can run for five seconds before it fails.
So long texts and chats have their own workers, and do not delay short prompts. Checking a grammar
takes up to a second, even a short one.
"""

import gc
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

LONG = 32 * 1024
"""In characters or tokens. A shorter text takes some hundredths of a second at most."""


class Workers:
    def __init__(self) -> None:
        self._short = ThreadPoolExecutor(max_workers=2, thread_name_prefix="minivllm-tokenizer")
        self._chats = ThreadPoolExecutor(max_workers=2, thread_name_prefix="minivllm-chat")
        self._long = ThreadPoolExecutor(max_workers=1, thread_name_prefix="minivllm-long-texts")
        self._grammars = ThreadPoolExecutor(max_workers=1, thread_name_prefix="minivllm-check")
        self._tidying: Future[None] | None = None

    def submit(
        self, size: int, work: Callable[..., T], *args: object, renders_template: bool = False
    ) -> Future[T]:
        pool = self._long if size > LONG else self._chats if renders_template else self._short
        return pool.submit(work, *args)

    def submit_grammar(self, work: Callable[..., T], *args: object) -> Future[T]:
        return self._grammars.submit(work, *args)

    def tidy_up(self) -> None:
        """Collect garbage, after the long texts that are already queued."""
        if self._tidying is None or self._tidying.done():
            self._tidying = self._long.submit(_tidy_up)

    def shutdown(self) -> None:
        """Cancel work that has not started; do not wait for the rest."""
        for pool in (self._short, self._chats, self._long, self._grammars):
            pool.shutdown(wait=False, cancel_futures=True)


def _tidy_up() -> None:
    gc.collect()  # a refused body and the traceback of its error form a reference cycle
