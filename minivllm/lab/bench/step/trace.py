"""Writes a trace of a few steps, from torch's profiler and the engine's events, for Perfetto.

The profiler records torch's operations and threads, and the parts of a step as ranges. The events
add the sequences of each step and the scheduler's decisions. Both are Chrome traces, with different
clocks. So this module reads the engine's clock, puts a mark into the profiler's trace at the same
time, and shifts the engine's records by the difference.
"""

import io
import json
import tempfile
from pathlib import Path

from torch.profiler import profile, record_function

from minivllm.clock import MonotonicClock
from minivllm.engine.engine import LLMEngine
from minivllm.events.perfetto import export_perfetto
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.whole_file import write_whole
from minivllm.lab.bench.step.parts import watch_parts
from minivllm.lab.bench.step.points import RandomRequests
from minivllm.lab.common.stopwatch import PartWatcher

NUM_STEPS = 6
NUM_MARKS = 8


class PartsInTrace(PartWatcher):
    def __init__(self) -> None:
        self._ranges: list[record_function] = []

    def begin(self, part: str) -> None:
        self._ranges.append(record_function(part))
        self._ranges[-1].__enter__()

    def end(self) -> None:
        self._ranges.pop().__exit__(None, None, None)


def write_trace(
    engine: LLMEngine, requests: RandomRequests, batch_size: int, context: int, path: str
) -> None:
    for _ in range(batch_size):
        requests.add(context, max_tokens=NUM_STEPS)
    with tempfile.TemporaryDirectory() as folder:
        log, operations = Path(folder, "events.jsonl"), Path(folder, "operations.json")
        with (
            LogWriter(log, engine.log_header()) as writer,
            watch_parts(engine, PartsInTrace()),
            profile() as profiler,
        ):
            unsubscribe = engine.subscribe(writer.write)
            mark, marked_at = _mark_time()
            while engine.has_unfinished_requests():
                with record_function(f"step {engine.core.scheduler.step + 1}"):
                    engine.step()
            unsubscribe()
        profiler.export_chrome_trace(str(operations))
        merged = _merge(json.loads(operations.read_text()), log, mark, marked_at)
    write_whole(path, json.dumps(merged))


def _mark_time() -> tuple[str, float]:
    """Put marks into the profiler's trace; return the name and time of the fastest mark.

    The system may have run another process during a slower one.
    """
    clock, marks = MonotonicClock(), []
    for number in range(NUM_MARKS):
        name, before = f"minivllm: clock {number}", clock.now()
        with record_function(name):
            pass
        marks.append((clock.now() - before, name, before))
    _, name, before = min(marks)
    return name, before


def _merge(operations: dict, log: Path, mark_name: str, marked_at: float) -> dict:
    buffer = io.BytesIO()
    export_perfetto(log, buffer)
    engine_trace = json.loads(buffer.getvalue())
    mono = json.loads(log.read_text().partition("\n")[0])["mono"]
    mark = next(
        record["ts"] for record in operations["traceEvents"] if record.get("name") == mark_name
    )
    shift = mark - (marked_at - mono) * 1e6
    for record in engine_trace["traceEvents"]:
        if record["ph"] != "M":
            record["ts"] += shift
    operations["traceEvents"] += engine_trace["traceEvents"]
    return operations | {"minivllm": engine_trace["otherData"]}
