"""How many blocks fit, and what counts as free memory."""

from pathlib import Path

import pytest
import torch

from minivllm.errors import ConfigError
from minivllm.runtime.kv_cache import (
    GIB,
    KVCacheSpec,
    available_cpu_memory,
    default_cpu_cache_bytes,
    num_blocks_that_fit,
    require_cpu_memory,
)

SMOLLM2_SPEC = KVCacheSpec(
    num_layers=30, num_kv_heads=3, head_size=64, block_size=16, dtype=torch.float32
)


def test_as_many_whole_blocks_fit_as_the_bytes_hold() -> None:
    size = SMOLLM2_SPEC.bytes_per_block
    assert [num_blocks_that_fit(SMOLLM2_SPEC, n) for n in (size, 2 * size - 1, 2 * size)] == [
        1,
        1,
        2,
    ]


@pytest.mark.parametrize("num_bytes", [-5, 0, SMOLLM2_SPEC.bytes_per_block - 1])
def test_room_for_less_than_one_block_is_refused(num_bytes: int) -> None:
    with pytest.raises(ConfigError, match="even one block of 16 tokens"):
        num_blocks_that_fit(SMOLLM2_SPEC, num_bytes)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def machine(root: Path, available_kib: int) -> None:
    write(
        root / "proc/meminfo",
        f"MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable:  {available_kib} kB\n",
    )


def container(root: Path, limit: str, used: int, dropped: int) -> None:
    write(root / "sys/fs/cgroup/memory.max", f"{limit}\n")
    write(root / "sys/fs/cgroup/memory.current", f"{used}\n")
    write(root / "sys/fs/cgroup/memory.stat", f"anon 5\nactive_file 7\ninactive_file {dropped}\n")


def test_a_containers_limit_counts_where_it_is_lower(tmp_path: Path) -> None:
    machine(tmp_path, 1000)
    container(tmp_path, "max", used=10, dropped=0)
    assert available_cpu_memory(tmp_path) == 1000 * 1024
    container(tmp_path, "5000", used=3000, dropped=500)
    assert available_cpu_memory(tmp_path) == 2500
    container(tmp_path, "5000", used=9000, dropped=500)
    assert available_cpu_memory(tmp_path) == 0


def test_the_default_cache_is_a_gibibyte_or_half_of_what_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for available, expected in ((None, GIB), (8 * GIB, GIB), (GIB, GIB // 2)):
        monkeypatch.setattr("minivllm.runtime.kv_cache.available_cpu_memory", lambda a=available: a)
        assert default_cpu_cache_bytes() == expected


def test_a_cache_larger_than_the_machine_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(ConfigError, match="num_gpu_blocks_override"):
        require_cpu_memory(SMOLLM2_SPEC, num_blocks=10**12)
    require_cpu_memory(SMOLLM2_SPEC, num_blocks=1)
