"""The smallest trace on which a solution goes wrong, as two recordings for the dashboard's Compare screen.

A is the engine as it is, B the student's; both open after the first step that differs. The easy thing to get wrong is a student's
log that cannot be folded: then its recording ends before the damage, and the dashboard says so.
"""

from pathlib import Path
from typing import NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.exercises.check import Result
from minivllm.lessons.exercises.report import readable, step_of_difference, yours_at
from minivllm.lessons.exercises.traces import write_recording


class Difference(NamedTuple):
    """Two recordings of one trace."""

    engine: Path
    yours: Path
    step: int
    """The first that differs."""
    sentence: str


def write_difference(result: Result, folder: Path) -> Difference:
    """Record both sides of the first failing trace. Raises `ExerciseError` if no trace fails."""
    for one in result.behaviours:
        if one.passed or not one.behaviour.is_trace:
            continue
        found = one.counterexample
        if not found.expected:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        engine, yours = folder / "engine.jsonl", folder / "yours.jsonl"
        write_recording(found.case, found.expected, engine)
        write_recording(found.case, found.told, yours)
        step = step_of_difference(found)
        expected = (
            readable(found.expected[found.index]) if found.index < len(found.expected) else "nothing more happens"
        )
        sentence = f"A is the engine, B is yours. First difference, in step {step}: A {expected}; B {yours_at(found)}."
        return Difference(engine, yours, step, sentence)
    if result.passed:
        raise ExerciseError(f"There is nothing to compare: {result.exercise.name} passes.")
    raise ExerciseError(
        f"No trace through the whole engine fails: `minivllm exercise check {result.exercise.name}` shows the smallest case."
    )
