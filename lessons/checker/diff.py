"""Writes the smallest failing trace as two recordings for the dashboard's Compare screen.

Recording A is the engine's and B the student's. Both open after the first step that differs. If the
student's code raises an error, recording B ends there.
"""

from pathlib import Path
from typing import NamedTuple

from minivllm.errors import ExerciseError
from minivllm.events.recording.lines import decode_line
from minivllm.lessons.checker.cases.traces import write_recording
from minivllm.lessons.checker.report import broken_promise, event_of
from minivllm.lessons.checker.result import Result
from minivllm.text import clean
from minivllm.tui.state.decisions import sentence_of


class Difference(NamedTuple):
    engine: Path
    yours: Path
    step: int
    sentence: str


def write_difference(result: Result, folder: Path) -> Difference:
    """Record both sides of the first failing trace. Raises `ExerciseError` if none fails."""
    traces = [outcome.counterexample for outcome in result.behaviours if outcome.behaviour.is_trace]
    found = next((trace for trace in traces if trace is not None and trace.expected), None)
    name = result.exercise.name
    if found is None:
        if result.passed:
            raise ExerciseError(f"There is nothing to compare: {name} passes.")
        shows = f"`minivllm exercise check {name}` shows the smallest case"
        raise ExerciseError(f"No trace through the whole engine fails: {shows}.")
    folder.mkdir(parents=True, exist_ok=True)
    engine, yours = folder / "engine.jsonl", folder / "yours.jsonl"
    write_recording(found.case, found.expected, engine)
    write_recording(found.case, found.actual, yours)
    step = event_of(found.expected[min(found.index, len(found.expected) - 1)])["step"]
    ours, own = (_told(lines, found.index) for lines in (found.expected, found.actual))
    events = [event for event in map(event_of, found.actual[found.index :]) if event is not None]
    promises = [broken_promise(event) for event in events]
    stops = "" if found.failure is None else f" Yours stops: {found.failure.text}."
    if broken := next(filter(None, promises), None):
        stops = f" Yours {broken}."
    sentence = f"Step {step}: the engine: {ours}; yours: {own}.{stops}"
    if broken and promises[0]:  # the difference is the broken promise itself
        sentence = f"Step {step}: yours {broken}."
    return Difference(engine, yours, step, clean(sentence))


def _told(lines: list[str], index: int) -> str:
    """The event of a line, in the dashboard's words."""
    line = (lines[index:] or ["nothing more happens"])[0]
    event = decode_line(line.encode())[1][0] if event_of(line) else None
    return line if event is None else sentence_of(event)
