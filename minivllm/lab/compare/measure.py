"""`Measured`: memory, concurrency, speed and latencies of a recorded run.

Everything is computed from the events in the file, so a reader can check the table. Memory waste is
the average over the steps. The time between tokens is measured in seconds, and in tokens that the
model computed in between for all sequences: this number shows the delay by a long prompt on any
machine, even on a busy one.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from minivllm.errors import BenchError
from minivllm.events import types as ev
from minivllm.events.kv_usage import KVUsage, KVUsageMeter, mean
from minivllm.events.ledger import RequestLedger
from minivllm.events.recording.recording import Recording


@dataclass(slots=True)
class Latencies:
    """One entry per request, or per pair of neighbouring tokens that are not of the same step."""

    time_to_first_token: list[float] = field(default_factory=list)  # seconds
    between_tokens: list[float] = field(default_factory=list)  # seconds
    tokens_between_tokens: list[int] = field(default_factory=list)
    """Computed tokens of all sequences between the two tokens, with the second token's step."""


def measure_latencies(events: Iterable[ev.Event]) -> Latencies:
    latencies, ledger = Latencies(), RequestLedger()
    num_computed = 0
    computed_at_token: dict[str, int] = {}  # sequence -> `num_computed` at its last token
    for event in events:
        match event:
            case ev.StepScheduled():
                num_computed += event.num_tokens
            case ev.RequestArrived():
                ledger.arrived(event)
            case ev.RequestForked():
                ledger.forked(event)
                # A beam starts with its parent's tokens; a sample still waits for its first token.
                computed_at_token[event.seq_id] = computed_at_token.get(event.parent, 0)
            case ev.TokenSampled():
                gap = ledger.sampled(event)
                record = ledger.sequences[event.seq_id]
                if gap:
                    computed = num_computed - computed_at_token[event.seq_id]
                    latencies.between_tokens.append(gap)
                    latencies.tokens_between_tokens.append(computed)
                elif gap is None and record.request.num_first_tokens == 1:
                    latencies.time_to_first_token.append(record.time_to_first_token)
                computed_at_token[event.seq_id] = num_computed
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
    usage, counters, latencies = meter.samples, meter.fold.counters, measure_latencies(events)
    if not usage:
        raise BenchError(f"{path} contains no step of the engine, so there is nothing to compare.")
    began = next(event.t for event in events if isinstance(event, ev.RequestArrived))
    seconds = usage[-1].t - began
    first, between = latencies.time_to_first_token, latencies.between_tokens
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
        "max_tokens_between_tokens": max(latencies.tokens_between_tokens, default=0),
    }
    return Measured(figures, usage, latencies, began)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _percentile(values: list[float], percent: float) -> float | None:
    """Return a percentile that is one of the values; None if there are none."""
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[rank - 1] if values else None
