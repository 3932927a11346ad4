"""How long a kernel takes: CUDA events around single runs, with a cold L2 cache.

Knows nothing of what it times. Twice easy to get wrong. A kernel that is run again and again finds its data in the L2
cache, which in an engine the layers in between have emptied; so a large buffer is filled before each run. And a launch
takes Python longer than a small kernel takes the device; that filling also keeps the device busy until the launch has arrived.

Source: triton 3.7 `triton/testing.py` (`do_bench`).
"""

import statistics
from collections.abc import Callable

import torch

from minivllm.clock import MonotonicClock

FLUSH_BYTES = 512 << 20
"""Ten times the L2 cache of an H200, and over 100 microseconds of writing."""
COPY_BYTES = 2 << 30
WARM_UP_RUNS = 3


def median_seconds(function: Callable[[], object], device: torch.device, num_runs: int) -> float:
    """The median of `num_runs` runs, after a warm-up that also compiles."""
    for _ in range(WARM_UP_RUNS if device.type == "cuda" else 1):
        function()
    if device.type != "cuda":
        return statistics.median(_time_on_cpu(function) for _ in range(num_runs))
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)
    pairs = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(num_runs)]
    for begin, end in pairs:
        flush.zero_()
        begin.record()
        function()
        end.record()
    torch.cuda.synchronize(device)
    return statistics.median(begin.elapsed_time(end) / 1000 for begin, end in pairs)


def copy_bytes_per_s(device: torch.device, num_runs: int) -> float:
    """The device's own speed of moving bytes, read and written ones counted: what a kernel can hope for."""
    num_bytes = COPY_BYTES if device.type == "cuda" else 1 << 20
    source = torch.zeros(num_bytes, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    return 2 * num_bytes / median_seconds(lambda: target.copy_(source), device, num_runs)


def _time_on_cpu(function: Callable[[], object]) -> float:
    clock = MonotonicClock()
    begin = clock.now()
    function()
    return clock.now() - begin
