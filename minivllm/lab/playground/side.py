"""`play_side`: serves the requests with one configuration; returns its figures and its recording.

Engine, scheduler and memory are the real ones, as in a race of the dashboard (`minivllm.lab.race`).
The model is replaced by the recording's tokens, and a step's time by a formula.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from minivllm.config import EngineConfig
from minivllm.errors import ConfigError
from minivllm.events.recording.recording import Recording
from minivllm.events.types import LogHeader
from minivllm.lab.compare.measure import Measured, measure_recording
from minivllm.lab.race.recorded_run import RecordedRequest, RecordedRun
from minivllm.lab.race.rerun import RerunSide, longest_that_fits, rerun

OPTIONS = (
    "scheduling_policy",
    "batching",
    "kv_cache_allocator",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "max_num_batched_tokens",
    "max_num_seqs",
    "num_gpu_blocks_override",
    "block_size",
)
"""What a reader can set, by the names of `EngineConfig`."""
MOST_BLOCKS = 4096
"""More blocks take longer than a reader waits, and the page cannot draw them."""


class PlayedSide(NamedTuple):
    figures: dict[str, float | int | None]
    """Fractions are from 0 to 1, times in seconds."""
    recording: str
    """JSON Lines, as `minivllm replay` reads them."""


def options_of(header: LogHeader) -> dict[str, Any]:
    """The options with which the requests were recorded."""
    return {
        "scheduling_policy": header.scheduling_policy,
        "batching": header.config.get("batching", "continuous"),
        "kv_cache_allocator": header.config.get("kv_cache_allocator", "paged"),
        "enable_chunked_prefill": header.config.get("enable_chunked_prefill", True),
        "enable_prefix_caching": header.enable_prefix_caching,
        "max_num_batched_tokens": header.max_num_batched_tokens,
        "max_num_seqs": header.max_num_seqs,
        "num_gpu_blocks_override": header.num_blocks,
        "block_size": header.block_size,
    }


def play_side(
    run: RecordedRun, options: dict[str, Any], path: Path, check: bool = False
) -> PlayedSide:
    """Serve all requests, and record the run at `path`.

    options: changes to `options_of(run.header)`
    check: check the rules of `minivllm.core.invariants` after each step

    Raises `ConfigError` or `SimulationError` for options that the engine cannot run with.
    """
    side = _side(run, options_of(run.header) | options, check)
    rerun(run, side, path, lambda num_tokens: None)
    return PlayedSide(_figures(path), path.read_text(encoding="utf-8"))


def _side(run: RecordedRun, options: dict[str, Any], check: bool) -> RerunSide:
    if unknown := [name for name in options if name not in OPTIONS]:
        raise ConfigError(f"There is no option {unknown[0]} here: use {', '.join(OPTIONS)}.")
    is_paged = options["kv_cache_allocator"] == "paged"
    # Contiguous memory cannot share blocks.
    options["enable_prefix_caching"] = options["enable_prefix_caching"] and is_paged
    # Checks each option alone; the longest sequence depends on them.
    EngineConfig(model=run.header.model, **options)
    num_blocks, block_size = options["num_gpu_blocks_override"], options["block_size"]
    if num_blocks > MOST_BLOCKS:
        raise ConfigError(f"The playground has at most {MOST_BLOCKS} blocks; got {num_blocks}.")
    header = structs.replace(run.header, num_blocks=num_blocks, block_size=block_size)
    longest = longest_that_fits(RecordedRun(header, run.requests, {}, run.step_times, []), [])
    config = EngineConfig(
        model=run.header.model, max_model_len=longest, check_invariants=check, **options
    )
    return RerunSide(config, list(_requests(run.requests, config)))


def _requests(requests: list[RecordedRequest], config: EngineConfig) -> Iterator[RecordedRequest]:
    for request in requests:
        if config.scheduling_policy != "priority":
            request = replace(request, priority=0)  # the engine would refuse it
        yield from [request] if config.kv_cache_allocator == "paged" else request.split()


def _figures(path: Path) -> dict[str, float | int | None]:
    measured = measure_recording("side", path)
    recording = Recording(path)
    counters = recording.head.counters
    recording.close()
    queries = counters.prefix_cache_queries
    return {
        **{name: value for name, value in measured.as_json().items() if name in _SHOWN},
        "ttft_mean_s": _mean_ttft(measured),
        "prefix_hit_rate": counters.prefix_cache_hits / queries if queries else None,
        "finished_requests": counters.finished_requests,
        "output_tokens": measured.output_tokens,
    }


_SHOWN = (
    "steps",
    "seconds",
    "throughput_tokens_per_s",
    "kv_waste",
    "max_running",
    "preemptions",
    "ttft_p50_s",
    "ttft_p99_s",
    "itl_p50_s",
    "itl_p99_s",
)


def _mean_ttft(measured: Measured) -> float | None:
    times = measured.latencies.time_to_first_token
    return sum(times) / len(times) if times else None
