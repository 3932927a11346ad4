"""Writes a trace of a few steps, from torch's profiler and the engine's events, for Perfetto.

The profiler records torch's operations and threads, and the parts of a step as ranges. The events
add the sequences of each step and the scheduler's decisions. Both are Chrome traces: the profiler's
time is relative to `baseTimeNanoseconds`, the engine's to the header's wall-clock time.
"""

import io
import json
import tempfile
from pathlib import Path

from torch.profiler import profile, record_function

from minivllm.engine.engine import LLMEngine
from minivllm.events.perfetto import export_perfetto
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.whole_file import write_whole
from minivllm.lab.bench.step.parts import watch_parts
from minivllm.lab.bench.step.points import RandomRequests

NUM_STEPS = 6


def write_trace(
    engine: LLMEngine, requests: RandomRequests, batch_size: int, context: int, path: str
) -> None:
    for _ in range(batch_size):
        requests.add(context, max_tokens=NUM_STEPS)
    header, engine_file = engine.log_header(), io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        log, operations = Path(folder, "events.jsonl"), Path(folder, "operations.json")
        watched = watch_parts(engine, record_function)
        with LogWriter(log, header) as writer, watched, profile() as profiler:
            unsubscribe = engine.subscribe(writer.write)
            while engine.has_unfinished_requests():
                with record_function(f"step {engine.core.scheduler.step + 1}"):
                    engine.step()
            unsubscribe()
        profiler.export_chrome_trace(str(operations))
        export_perfetto(log, engine_file)
        trace, engine_trace = json.loads(operations.read_text()), json.loads(engine_file.getvalue())
    shift = header.wall * 1e6 - trace["baseTimeNanoseconds"] / 1e3
    for record in engine_trace["traceEvents"]:
        if record["ph"] != "M":
            record["ts"] += shift
    trace["traceEvents"] += engine_trace["traceEvents"]
    write_whole(path, json.dumps(trace | {"minivllm": engine_trace["otherData"]}))
