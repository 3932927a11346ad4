"""Memory that was freed goes back to the system, at once and while a model is loaded."""

import subprocess
import sys

import pytest
import safetensors.torch
import torch

from minivllm.runtime.checkpoint import weights

HOLES = """
import numpy as np
from minivllm.runtime.cpu.heap import trim_heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

blocks = [np.ones(64 << 10, dtype=np.uint8) for _ in range(2000)]
pins = blocks[::100]  # so that what is freed lies between blocks in use
del blocks
before = resident()
trim_heap()
print(before - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_freed_blocks_between_used_ones_are_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 80_000_000


def test_the_heap_is_trimmed_on_the_way_and_at_the_end(tmp_path, monkeypatch) -> None:
    tensors = {f"w{n}": torch.zeros(10, 10) for n in range(6)}  # 400 bytes each
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    happened: list[str] = []
    monkeypatch.setattr(weights, "_BYTES_BETWEEN_TRIMS", 1000)
    monkeypatch.setattr(weights, "trim_heap", lambda: happened.append("trim"))
    for name, _ in weights.stream_weights(tmp_path):
        happened.append(name)
    assert happened == ["w0", "w1", "w2", "trim", "w3", "w4", "w5", "trim", "trim"]
