"""How long a kernel takes: CUDA events around single runs, with a cold L2 cache.

Knows nothing of what it times. Twice easy to get wrong. A kernel that is run again and again finds
its data in the L2 cache, which in an engine the layers in between have emptied; so a large buffer
is filled before each run. And a launch takes Python longer than a small kernel takes the device;
that filling also keeps the device busy until the launch has arrived.

Source: triton 3.7 `triton/testing.py` (`do_bench`).
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

from minivllm.clock import MonotonicClock

FLUSH_BYTES = 512 << 20
"""Ten times the L2 cache of an H200, and over 100 microseconds of writing."""
COPY_BYTES = 2 << 30
WARM_UP_RUNS = 3
IN_A_ROW = 28
"""Layers of Qwen3-0.6B."""


def seconds_of_runs(
    function: Callable[[], object], device: torch.device, num_runs: int
) -> list[float]:
    """The time of each of `num_runs` runs, after a warm-up that also compiles."""
    for _ in range(WARM_UP_RUNS if device.type == "cuda" else 1):
        function()
    if device.type != "cuda":
        return [_time_on_cpu(function) for _ in range(num_runs)]
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)
    pairs = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(num_runs)]
    for begin, end in pairs:
        flush.zero_()
        begin.record()
        function()
        end.record()
    torch.cuda.synchronize(device)
    return [begin.elapsed_time(end) / 1000 for begin, end in pairs]


def seconds_in_a_row(
    function: Callable[[], object], device: torch.device, num_runs: int, *, as_graph: bool
) -> list[float]:
    """The time of one of `IN_A_ROW` launches with nothing between them, in each run: Python's part
    shows where it is the longer one.

    as_graph: recorded once as a CUDA graph and replayed, as the engine does it with launches that
    never change
    """
    if device.type != "cuda":
        return [_time_on_cpu(function) for _ in range(num_runs)]

    def all_of_them() -> None:
        for _ in range(IN_A_ROW):
            function()

    run = all_of_them
    if as_graph:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(device)
        with torch.cuda.graph(graph):
            all_of_them()
        run = graph.replay
    seconds = []
    for _ in range(WARM_UP_RUNS + num_runs):
        # The device is idle when the first launch comes, as it is for a step that waits for its
        # sampled tokens.
        torch.cuda.synchronize(device)
        clock = MonotonicClock()
        begin = clock.now()
        run()
        torch.cuda.synchronize(device)
        seconds.append((clock.now() - begin) / IN_A_ROW)
    return seconds[WARM_UP_RUNS:]


@dataclass(frozen=True, slots=True)
class Movement:
    """A plain movement of bytes by the device, against which kernels are measured."""

    num_bytes: int
    """Read and written ones."""
    runs: list[float]
    """Seconds of each run."""

    @property
    def bytes_per_s(self) -> float:
        return self.num_bytes / statistics.median(self.runs)


def measure_copy(device: torch.device, num_runs: int) -> Movement:
    """A large copy, read and written bytes counted: what a kernel can hope for."""
    source = _large_buffer(device)
    target = torch.empty_like(source)
    return Movement(
        2 * source.nbytes, seconds_of_runs(lambda: target.copy_(source), device, num_runs)
    )


def measure_read(device: torch.device, num_runs: int) -> Movement:
    """A large sum, which reads and writes next to nothing, as attention does while decoding."""
    source = _large_buffer(device)
    return Movement(source.nbytes, seconds_of_runs(source.sum, device, num_runs))


def _large_buffer(device: torch.device) -> torch.Tensor:
    return torch.zeros(
        (COPY_BYTES if device.type == "cuda" else 1 << 20) // 4, dtype=torch.float32, device=device
    )


def _time_on_cpu(function: Callable[[], object]) -> float:
    clock = MonotonicClock()
    begin = clock.now()
    function()
    return clock.now() - begin
