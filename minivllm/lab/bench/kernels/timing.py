"""Times kernels with CUDA events around single runs, with a cold L2 cache.

Before each run, the device fills a large buffer. This clears the L2 cache, as the other layers do
in an engine, and keeps the device busy while Python launches the kernel. Otherwise the time of a
small kernel would include the launch, which takes longer than the kernel.

Source: triton 3.7 `triton/testing.py` (`do_bench`).
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

from minivllm.clock import MonotonicClock

FLUSH_BYTES = 512 << 20
"""Ten times the L2 cache of an H200; writing it takes over 100 microseconds."""
COPY_BYTES = 2 << 30
WARM_UP_RUNS = 3
IN_A_ROW = 28
"""Number of launches without a pause: one for each layer of Qwen3-0.6B."""


def seconds_of_runs(
    function: Callable[[], object], device: torch.device, num_runs: int
) -> list[float]:
    """Return the time of each of `num_runs` runs, after a warm-up that also compiles."""
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
    """Return the time per launch in each run; a run is `IN_A_ROW` launches without a pause.

    If the launch from Python takes longer than the kernel, the result is the launch time.

    as_graph: record the launches as a CUDA graph and replay the graph, as the engine does
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
        # Start with an idle device, as in a step that has waited for its sampled tokens.
        torch.cuda.synchronize(device)
        clock = MonotonicClock()
        begin = clock.now()
        run()
        torch.cuda.synchronize(device)
        seconds.append((clock.now() - begin) / IN_A_ROW)
    return seconds[WARM_UP_RUNS:]


@dataclass(frozen=True, slots=True)
class Movement:
    """A plain copy or read on the device. Kernels are compared with its speed."""

    num_bytes: int
    """Bytes read plus bytes written."""
    runs: list[float]
    """Seconds of each run."""

    @property
    def bytes_per_s(self) -> float:
        return self.num_bytes / statistics.median(self.runs)


def measure_copy(device: torch.device, num_runs: int) -> Movement:
    """Time a large copy, the upper bound for a kernel."""
    source = _large_buffer(device)
    target = torch.empty_like(source)
    return Movement(
        2 * source.nbytes, seconds_of_runs(lambda: target.copy_(source), device, num_runs)
    )


def measure_read(device: torch.device, num_runs: int) -> Movement:
    """Time a large sum, which writes almost nothing, like attention in decoding."""
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
