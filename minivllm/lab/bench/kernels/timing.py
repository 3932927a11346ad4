"""Times kernels with CUDA events around single runs, with a cold L2 cache.

Before each run, the device fills a large buffer. This clears the L2 cache, as the other layers do
in an engine, and keeps the device busy while Python launches the kernel. Otherwise the time of a
small kernel would include the launch, which takes longer than the kernel.

Source: triton 3.7 `triton/testing.py` (`do_bench`).
"""

from collections.abc import Callable

import torch

from minivllm.clock import MonotonicClock

FLUSH_BYTES = 512 << 20
"""Ten times the L2 cache of an H200; writing it takes over 100 microseconds."""
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
        return [_seconds(function) for _ in range(num_runs)]
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
        return [_seconds(function) for _ in range(num_runs)]

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

    def run_and_wait() -> None:
        run()
        torch.cuda.synchronize(device)

    # The device is idle at the start, as in a step that has waited for its sampled tokens.
    seconds = [_seconds(run_and_wait) / IN_A_ROW for _ in range(WARM_UP_RUNS + num_runs)]
    return seconds[WARM_UP_RUNS:]


def _seconds(function: Callable[[], object]) -> float:
    clock = MonotonicClock()
    begin = clock.now()
    function()
    return clock.now() - begin
