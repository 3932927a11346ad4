"""`with_deep_stack`: calls a function in a thread with a large stack.

llguidance follows the references of a grammar by recursion. A schema of 100,000 characters can be a
chain of a thousand `$ref`, which needs more than the usual 8 MiB: the process would end.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from minivllm.runtime.cpu.heap import trim_thread_heap

T = TypeVar("T")

STACK_SIZE = 256 << 20
"""In bytes: several times as much as any grammar needed. The system provides what is used."""


def with_deep_stack(work: Callable[[], T]) -> T:
    """Return the result of `work()`, or raise its exception."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)
        # A grammar that explodes takes 25 MiB, which the heap would keep for a later thread.
        trim_thread_heap()

    usual = threading.stack_size(STACK_SIZE)
    try:
        threading.Thread(target=run, name="minivllm-deep").start()
    finally:
        threading.stack_size(usual)
    return future.result()
