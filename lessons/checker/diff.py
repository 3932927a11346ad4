"""Writes the smallest failing trace as two recordings for the dashboard's Compare screen.

Recording A is the engine's and B the student's; their names say so. Both open after the first step that differs. If the
student's code raises an error, recording B ends there; the sentence above shows the error.
"""

from pathlib import Path
from typing import NamedTuple

from minivllm.errors import ExerciseError
from minivllm.events.recording.lines import decode_line
from minivllm.lessons.checker.cases.traces import write_recording
from minivllm.lessons.checker.report import event_of
from minivllm.lessons.checker.result import Counterexample, Result
from minivllm.text import clean
from minivllm.tui.state.decisions import sentence_of


class Difference(NamedTuple):
    engine: Path
    yours: Path
    step: int
    """The first step that differs."""
    sentence: str


def write_difference(result: Result, folder: Path) -> Difference:
    """Record both sides of the smallest failing trace of the first failing behaviour with traces.

    Raises `ExerciseError` if no trace fails.
    """
    for outcome in result.behaviours:
        found = outcome.counterexample
        if found is None or not outcome.behaviour.is_trace or not found.expected:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        engine, yours = folder / "engine.jsonl", folder / "yours.jsonl"
        write_recording(found.case, found.expected, engine)
        write_recording(found.case, found.actual, yours)
        step = event_of(found.expected[min(found.index, len(found.expected) - 1)])["step"]
        return Difference(engine, yours, step, clean(_sentence(found, step)))
    name = result.exercise.name
    if result.passed:
        raise ExerciseError(f"There is nothing to compare: {name} passes.")
    shows = f"`minivllm exercise check {name}` shows the smallest case"
    raise ExerciseError(f"No trace through the whole engine fails: {shows}.")


def _sentence(found: Counterexample, step: int) -> str:
    """Where the engine and the student's code differ, and why the latter ends early."""
    engine, failure = _told(found.expected, found.index), found.failure
    if failure is not None and found.index >= len(found.actual):
        return f"Step {step}: yours stops: {failure.text}. The engine: {engine}."
    yours = event_of(found.actual[found.index]) if found.index < len(found.actual) else None
    if yours is not None and yours["ev"] == "invariant.violated":
        return f"Step {step}: yours breaks a promise: {yours['name']}."
    sides = f"the engine: {engine}; yours: {_told(found.actual, found.index)}."
    if failure is None:
        return f"Step {step}: {sides}"
    last = [event["step"] for event in map(event_of, found.actual) if event] or [step]
    return f"Step {step}: {sides} In step {last[-1]} yours stops: {failure.text}."


def _told(lines: list[str], index: int) -> str:
    """The event of a line, in the dashboard's words."""
    if index >= len(lines):
        return "nothing more happens"
    _, event = decode_line(lines[index].encode())
    return lines[index] if event is None else sentence_of(event)
