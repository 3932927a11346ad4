"""A few steps as torch's profiler and as the engine's events saw them, in one file for
ui.perfetto.dev.

The profiler tells each operation of torch and its threads. It knows nothing of kernels that are not
torch's, so the parts of the step are ranges in its trace, by the names that `bench step` has for
them. The events tell whose tokens a step held and what was decided. Both are Chrome traces. Knows
the two formats as JSON; what the engine's part looks like is `minivllm.events.perfetto.export`'s
business.

Easy to get wrong: that the two clocks have nothing in common. A mark is put into the profiler's
trace at a moment that the engine's clock is asked for, and all of the engine's records are moved by
the difference.
"""

import io
import json
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from minivllm.clock import MonotonicClock
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.events.perfetto.export import export_perfetto
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.whole_file import write_whole
from minivllm.lab.bench.step.parts import watch
from minivllm.lab.bench.step.points import RandomRequests
from minivllm.lab.common.stopwatch import PartWatcher

NUM_STEPS = 6
NUM_MARKS = 8


class PartsInTrace(PartWatcher):
    """A range in the profiler's trace for each time a part runs."""

    def __init__(self) -> None:
        self._ranges: list[record_function] = []

    def begin(self, part: str) -> None:
        """See `PartWatcher.begin`."""
        self._ranges.append(record_function(part))
        self._ranges[-1].__enter__()

    def end(self) -> None:
        """See `PartWatcher.end`."""
        self._ranges.pop().__exit__(None, None, None)


def write_trace(
    engine: LLMEngine, requests: RandomRequests, batch_size: int, context: int, path: str
) -> None:
    """Run `batch_size` requests from their prompts on for a few steps, and then on to their end;
    write both traces into `path`.
    """
    _require_writable(path)
    for _ in range(batch_size):
        requests.add(context, max_tokens=NUM_STEPS)
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with tempfile.TemporaryDirectory() as folder:
        log, operations = Path(folder, "events.jsonl"), Path(folder, "operations.json")
        with (
            LogWriter(log, engine.log_header()) as writer,
            watch(engine, PartsInTrace()),
            profile(activities=activities) as profiler,
        ):
            unsubscribe = engine.subscribe(writer.write)
            mark, marked_at = _mark_time()
            while engine.has_unfinished_requests():
                with record_function(f"step {engine._stepper.scheduler.step + 1}"):
                    engine.step()
            unsubscribe()
        profiler.export_chrome_trace(str(operations))
        write_whole(
            path, json.dumps(_merge(json.loads(operations.read_text()), log, mark, marked_at))
        )


def _mark_time() -> tuple[str, float]:
    """Put marks into the profiler's trace; name and time of the one that was made the quickest:
    between the others' two clocks the system may have run somebody else."""
    clock, marks = MonotonicClock(), []
    for number in range(NUM_MARKS):
        name, before = f"minivllm: clock {number}", clock.now()
        with record_function(name):
            pass
        marks.append((clock.now() - before, name, before))
    _, name, before = min(marks)
    return name, before


def _merge(operations: dict, log: Path, mark_name: str, marked_at: float) -> dict:
    """The profiler's trace with the engine's records in it, as a process of their own."""
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


def _require_writable(path: str) -> None:
    """Before minutes of measuring: a file that cannot be written is a file that cannot be written
    now.
    """
    try:
        open(path, "ab").close()
    except OSError as error:
        raise BenchError(
            f"{path} cannot be written ({error.strerror}): give --trace another file."
        ) from error
