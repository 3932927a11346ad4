"""How the CPU kernels' threads share work: every item once, no wait for late threads."""

import ctypes
import os
import shlex
import signal
import subprocess
import threading
from collections import Counter
from importlib import resources

import pytest
import torch
from support.model.needs import cpu_ops

from minivllm.kernels.cpu import library
from minivllm.runtime.model.linear_backend import CpuMatrix

TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
FACE = (
    '#include "threads.h"\nvoid call(task *run, int64_t items, int64_t threads, int is_long) {'
    " share(run, 0, items, threads, is_long); }"
)


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory):
    """`share` of threads.c, with tasks that are Python functions."""
    cpu_ops()
    folder = tmp_path_factory.mktemp("threads")
    (folder / "face.c").write_text(FACE)
    kernels = resources.files("minivllm.kernels.cpu")
    flags = f"-O2 -pthread -fPIC -shared -I {kernels}"
    files = [str(folder / "face.c"), str(kernels / "threads.c"), "-o", str(folder / "threads.so")]
    subprocess.run([*library._compiler(), *shlex.split(flags), *files], check=True)
    call = ctypes.CDLL(str(folder / "threads.so")).call
    call.argtypes = (TASK, ctypes.c_int64, ctypes.c_int64, ctypes.c_int)

    def share(work, num_items: int, num_threads: int, is_long: bool = True) -> None:
        call(TASK(lambda _, item: work(item)), num_items, num_threads, is_long)

    return share


@pytest.mark.parametrize("num_threads", [1, 2, 3, 8])
def test_every_item_is_done_exactly_once(share, num_threads):
    for num_items in (0, 1, 2, 7, 200):
        for is_long in (False, True):
            done: list[int] = []
            share(done.append, num_items, num_threads, is_long)
            assert Counter(done) == Counter(range(num_items))


def test_a_suspended_thread_delays_only_its_own_item(share):
    num_items, caller, rest_is_done, by_caller = 500, threading.get_ident(), threading.Event(), []

    def work(item: int) -> None:
        if threading.get_ident() != caller:
            # suspended in the middle of its item until everything else is done
            assert rest_is_done.wait(60)
        else:
            by_caller.append(item)
            if len(by_caller) == num_items - 1:
                rest_is_done.set()

    share(work, num_items, 2)
    assert len(by_caller) >= num_items - 1


def test_a_second_caller_does_not_wait_for_the_first(share):
    inner: list[int] = []
    both_are_at_it = threading.Barrier(2)

    def outer(_: int) -> None:
        both_are_at_it.wait(60)
        share(inner.append, 5, 2)
        both_are_at_it.wait(60)

    other = threading.Thread(target=share, args=(outer, 1, 1))
    other.start()
    outer(0)
    other.join()
    share(lambda _: share(inner.append, 5, 2), 4, 2)  # and a task that shares work itself
    assert Counter(inner) == Counter(dict.fromkeys(range(5), 6))


def test_a_child_process_computes_what_its_parent_does():
    ops = cpu_ops()
    x, matrix = torch.randn(16, 640), CpuMatrix(torch.randn(640, 640)).packed
    torch.set_num_threads(2)
    expected = ops.linear(x, matrix)
    if (child := os.fork()) == 0:
        signal.alarm(60)
        same = all(torch.equal(ops.linear(x, matrix), expected) for _ in range(50))
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert torch.equal(ops.linear(x, matrix), expected)
