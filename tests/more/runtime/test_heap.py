"""Freed memory returns to the system, at once and while a model is loaded."""

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
