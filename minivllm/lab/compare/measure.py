"""`Measured`: memory, concurrency, speed and latencies of a recorded run.

Everything is computed from the events in the file, so a reader can check the table. Memory waste is
the average over the steps.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from minivllm.errors import BenchError
from minivllm.events import types as ev
from minivllm.events.kv_usage import KVUsage, KVUsageMeter, mean
from minivllm.events.ledger import RequestLedger
from minivllm.events.recording.recording import Recording


class Latencies(NamedTuple):
    """One entry per request, or per pair of neighbouring tokens that are not of the same step."""

    time_to_first_token: list[float]  # seconds
    between_tokens: list[float]  # seconds


def measure_latencies(events: Iterable[ev.Event]) -> Latencies:
    latencies, ledger = Latencies([], []), RequestLedger()
    for event in events:
        match event:
            case ev.RequestArrived():
                ledger.arrived(event)
            case ev.RequestForked():
                ledger.forked(event)
            case ev.TokenSampled():
                gap = ledger.sampled(event)
                record = ledger.sequences[event.seq_id]
                if gap:
                    latencies.between_tokens.append(gap)
                elif gap is None and record.request.num_first_tokens == 1:
                    latencies.time_to_first_token.append(record.time_to_first_token)
    return latencies


def count_recomputed_blocks(events: Iterable[ev.Event]) -> int:
    """Count how often a full block was computed whose content had been computed before."""
    times, arriving = Counter(), set()
    for event in events:
        if isinstance(event, ev.KVLoad):
            arriving.update(event.block_ids)
        elif isinstance(event, ev.BlockHashed):
            if event.block_id not in arriving:
                times[event.hash] += 1
            arriving.discard(event.block_id)
    return times.total() - len(times)


@dataclass(frozen=True, slots=True)
class Measured:
    figures: dict[str, float | int | None]
    """As in the JSON of `minivllm compare`. Fractions are from 0 to 1; times are in seconds."""
    usage: list[KVUsage]
    latencies: Latencies
    began: float  # arrival of the first request, in seconds on the run's clock


def measure_recording(path: Path) -> Measured:
    """Measure a whole recording. Raises `BenchError` if the recording has no step."""
    recording = Recording(path)
    events = list(recording.events(0, len(recording)))
    meter = KVUsageMeter(recording.header)
    for event in events:
        meter.apply(event)
    recording.close()
    usage, counters = meter.samples, meter.fold.counters
    if not usage:
        raise BenchError(f"{path} contains no step of the engine, so there is nothing to compare.")
    began = next(event.t for event in events if isinstance(event, ev.RequestArrived))
    seconds = usage[-1].t - began
    first, between = latencies = measure_latencies(events)
    figures = {
        "num_blocks": recording.header.num_blocks,
        "block_size": recording.header.block_size,
        "kv_waste": mean([sample.waste for sample in usage]),
        **{
            f"kv_{name}": mean([getattr(sample, name) / sample.total for sample in usage])
            for name in ("used", "reserved", "internal", "external")
        },
        "kv_saved_by_sharing": mean([sample.saved_by_sharing for sample in usage]),
        "max_running": max(sample.num_running for sample in usage),
        "finished_requests": counters.finished_requests,
        "output_tokens": counters.generation_tokens,
        "throughput_tokens_per_s": counters.generation_tokens / seconds,
        "steps": len(usage),
        "recomputed_tokens": count_recomputed_blocks(events) * recording.header.block_size,
        "loaded_tokens": counters.external_prefix_cache_hits,
        "seconds": seconds,
        "preemptions": counters.num_preemptions,
        "prefix_hit_rate": _share(counters.prefix_cache_hits, counters.prefix_cache_queries),
        "draft_acceptance": _share(
            counters.spec_decode_num_accepted_tokens, counters.spec_decode_num_draft_tokens
        ),
        "ttft_mean_s": mean(first) if first else None,
        **{f"ttft_p{percent}_s": _percentile(first, percent) for percent in (50, 99)},
        **{f"itl_p{percent}_s": _percentile(between, percent) for percent in (50, 99)},
    }
    return Measured(figures, usage, latencies, began)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _percentile(values: list[float], percent: float) -> float | None:
    """Return a percentile that is one of the values; None if there are none."""
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[rank - 1] if values else None
