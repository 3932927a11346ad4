"""Freed memory returns to the system, at once and while a model is loaded."""

import ctypes
import subprocess
import sys

import pytest

HOLES = """
import numpy as np
from minivllm.runtime.cpu.heap import trim_heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

blocks = [np.ones(64 << 10, dtype=np.uint8) for _ in range(2000)]
pins = blocks[::100]  # freed blocks are between used ones
del blocks
before = resident()
trim_heap()
print(before - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_freed_blocks_between_used_ones_return_to_the_system():
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 80_000_000


END = """
import threading
import numpy as np
from minivllm.runtime.cpu.heap import trim_heap, trim_thread_heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def work():
    np.ones(30 << 20, dtype=np.uint8)  # from now on, glibc keeps ends of up to 60 MiB
    blocks = [None] * 800  # a list that grows would lie behind the blocks
    for i in range(len(blocks)):
        blocks[i] = np.ones(64 << 10, dtype=np.uint8)
    for i in range(len(blocks)):
        blocks[i] = None
    trim_heap()
    used = resident()
    trim_thread_heap()
    print(used - resident())

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="only glibc has such heaps"
)
def test_the_free_end_of_a_threads_heap_returns_to_the_system():
    done = subprocess.run([sys.executable, "-c", END], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 45_000_000
