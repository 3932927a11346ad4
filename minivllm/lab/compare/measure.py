"""`Measured`: memory, concurrency, speed and latencies of a recorded run.

Everything is computed from the events in the file, so a reader can check the table. Memory waste is
the average over the steps. Latencies are percentiles, because users notice a single stall.
"""

from dataclasses import dataclass
from pathlib import Path

from minivllm.errors import BenchError
from minivllm.events import types as ev
from minivllm.events.kv_usage import KVUsage, KVUsageMeter, mean
from minivllm.events.recording.recording import Recording
from minivllm.lab.common.statistics import nearest_rank
from minivllm.lab.compare.latency import Latencies, measure_latencies


@dataclass(frozen=True, slots=True)
class Measured:
    name: str
    recording: str
    usage: list[KVUsage]
    """One entry per step."""
    num_blocks: int
    latencies: Latencies
    began: float
    """Arrival of the first request, in seconds on the run's clock (`ProcessorClock` on a CPU)."""
    seconds: float
    """Seconds from `began` to the end of the last step."""
    output_tokens: int
    preemptions: int
    draft_acceptance: float | None = None
    """Share of the drafts that were right; None without drafts."""

    def as_json(self) -> dict[str, object]:
        """Return the value of `a` or `b` in the JSON of `minivllm compare`.

        Fractions are from 0 to 1; times are in seconds.
        """
        usage, latencies = self.usage, self.latencies
        return {
            "configuration": self.name,
            "num_blocks": self.num_blocks,
            "kv_waste": mean([sample.waste for sample in usage]),
            "kv_used": mean([sample.used / sample.total for sample in usage]),
            "kv_reserved": mean([sample.reserved / sample.total for sample in usage]),
            "kv_internal": mean([sample.internal / sample.total for sample in usage]),
            "kv_external": mean([sample.external / sample.total for sample in usage]),
            "kv_saved_by_sharing": mean([sample.saved_by_sharing for sample in usage]),
            "max_running": max(sample.num_running for sample in usage),
            "throughput_tokens_per_s": self.output_tokens / self.seconds,
            "steps": len(usage),
            "seconds": self.seconds,
            "preemptions": self.preemptions,
            "draft_acceptance": self.draft_acceptance,
            "ttft_p50_s": _percentile(latencies.time_to_first_token, 50),
            "ttft_p99_s": _percentile(latencies.time_to_first_token, 99),
            "itl_p50_s": _percentile(latencies.between_tokens, 50),
            "itl_p99_s": _percentile(latencies.between_tokens, 99),
            "max_tokens_between_tokens": max(latencies.tokens_between_tokens, default=0),
            "recording": self.recording,
        }


def measure_recording(name: str, path: Path) -> Measured:
    """Measure a whole recording. Raises `BenchError` if the recording has no step."""
    recording = Recording(path)
    events = list(recording.events(0, len(recording)))
    meter = KVUsageMeter(recording.header)
    for event in events:
        meter.apply(event)
    if not meter.samples:
        raise BenchError(f"{path} contains no step of the engine, so there is nothing to compare.")
    counters = meter.fold.counters
    drafts = counters.spec_decode_num_draft_tokens
    began = next(event.t for event in events if isinstance(event, ev.RequestArrived))
    return Measured(
        name=name,
        recording=str(path),
        usage=meter.samples,
        num_blocks=recording.header.num_blocks,
        latencies=measure_latencies(events),
        began=began,
        seconds=meter.samples[-1].t - began,
        output_tokens=counters.generation_tokens,
        preemptions=counters.num_preemptions,
        draft_acceptance=counters.spec_decode_num_accepted_tokens / drafts if drafts else None,
    )


def _percentile(values: list[float], percent: float) -> float | None:
    """Return a percentile; None if there are no values, as with one token per request."""
    return nearest_rank(values, percent) if values else None
