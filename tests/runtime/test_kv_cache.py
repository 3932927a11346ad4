"""How many blocks fit, and what counts as free memory."""

from dataclasses import replace

import pytest
import torch

from minivllm.errors import ConfigError
from minivllm.runtime.kv_cache import KVCacheSpec, available_cpu_memory, num_blocks_that_fit

SMOLLM2_SPEC = KVCacheSpec(
    num_layers=30, num_kv_heads=3, head_size=64, block_size=16, dtype=torch.float32
)


def test_the_cache_has_only_whole_blocks_and_less_than_one_is_refused():
    size = SMOLLM2_SPEC.bytes_per_block
    int8, half = (
        replace(SMOLLM2_SPEC, dtype=torch.float32, kv_cache_dtype=kind).bytes_per_block
        for kind in ("int8_per_token_head", "bfloat16")
    )
    # a scale of 4 bytes with 64 numbers of 1 byte
    assert (int8, half) == (2 * 30 * 3 * 16 * (64 + 4), 2 * 30 * 3 * 16 * 64 * 2)
    for num_bytes, num_blocks in ((size, 1), (2 * size - 1, 1), (2 * size, 2)):
        assert num_blocks_that_fit(SMOLLM2_SPEC, num_bytes) == num_blocks
    for num_bytes in (-5, 0, size - 1):
        with pytest.raises(ConfigError, match="even one block of 16 tokens"):
            num_blocks_that_fit(SMOLLM2_SPEC, num_bytes)


@pytest.mark.parametrize(
    ("limit", "used", "dropped", "available"),
    [("max", 10, 0, 1000 * 1024), ("5000", 3000, 500, 2500), ("5000", 9000, 500, 0)],
)
def test_a_lower_container_limit_counts(limit, used, dropped, available, tmp_path):
    files = {
        "proc/meminfo": "MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable:  1000 kB\n",
        "sys/fs/cgroup/memory.max": f"{limit}\n",
        "sys/fs/cgroup/memory.current": f"{used}\n",
        "sys/fs/cgroup/memory.stat": f"anon 5\nactive_file 7\ninactive_file {dropped}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_cpu_memory(tmp_path) == available
