"""Writes the smallest failing trace as two recordings for the dashboard's Compare screen.

Recording A is the engine's and B the student's. Both open after the first step that differs. If the
student's code raises an error, recording B ends there; the sentence above shows the error.
"""

from pathlib import Path
from typing import NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.cases.traces import write_recording
from minivllm.lessons.checker.report import engines_at, event_of, yours_at
from minivllm.lessons.checker.result import Counterexample, Result
from minivllm.text import clean


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
    """Where A and B differ, and why B ends early."""
    engine, failure = engines_at(found), found.failure
    if failure is not None and found.index >= len(found.actual):
        return f"In step {step} yours stops: {failure.text}. A, the engine, continues: {engine}."
    sides = f"A (the engine) {engine}; B (yours) {yours_at(found)}."
    sentence = f"First difference, in step {step}: {sides}"
    if failure is None:
        return sentence
    last = [event["step"] for event in map(event_of, found.actual) if event] or [step]
    return f"{sentence} In step {last[-1]} yours stops: {failure.text}."
