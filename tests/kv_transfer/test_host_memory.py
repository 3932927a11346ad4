"""The host's blocks as tensors: stores come before loads, and every byte of a block is copied."""

import pytest
import torch

from minivllm.core.scheduler_output import BlockCopy
from minivllm.errors import ConfigError
from minivllm.kv_transfer import host_memory
from minivllm.kv_transfer.host_memory import HostMemory


def test_a_block_comes_back_in_another_place_although_its_own_is_reused_in_the_same_step():
    whole = torch.arange(2 * 4 * 3, dtype=torch.int8).view(2, 4, 3)  # as Triton's: one tensor
    caches = [*whole, torch.arange(8.0).view(4, 2)]
    before = [cache.clone() for cache in caches]
    memory = HostMemory(caches, num_blocks=2)
    memory.copy([BlockCopy(0, 1), BlockCopy(3, 0)], [BlockCopy(1, 3), BlockCopy(0, 2)], True)
    for cache, was in zip(caches, before, strict=True):
        assert torch.equal(cache, was[[0, 1, 3, 0]])
    assert memory.copy([], [], False).query()


def test_a_tier_larger_than_memory_is_one_sentence(monkeypatch):
    monkeypatch.setattr(host_memory, "available_cpu_memory", lambda: 1000 << 10)
    caches = [torch.zeros(10, 15 << 10)]  # 600 KiB, which the system has not given yet
    HostMemory(caches, num_blocks=6)
    with pytest.raises(ConfigError, match=r"7 blocks .* need 420 KiB, but 400 KiB are free"):
        HostMemory(caches, num_blocks=7)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match=r"blocks in the host's memory need .* are free; lower"):
        HostMemory([torch.zeros(1, 1 << 20)], num_blocks=1 << 40)
