"""The result of a check in words: what passes, the smallest failing case, and what to try next."""

import json
from collections.abc import Iterator

from minivllm.lessons.checker.cases.behaviour import VISIBLE
from minivllm.lessons.checker.cases.traces import describe_trace
from minivllm.lessons.checker.result import BehaviourResult, Counterexample, Failure, Result
from minivllm.text import clean

_LINES_BEFORE = 4
_MOST_CHARACTERS = 400
_ENVELOPE = ("ev", "seq", "step", "t")


def report(result: Result, first_todo: int | None = None) -> Iterator[str]:
    """The lines for a terminal. first_todo: its line in the student's file"""
    name, file, failed = result.exercise.name, result.file, result.first_failure
    if result.could_not_run is not None:
        yield f"{name}: {file} could not be loaded: {not_loaded(result.could_not_run)}"
        return
    if result.is_untouched and first_todo is not None:
        expected = "This failure is expected, and nothing is broken"
        yield from (f"{expected}: open {file}, line {first_todo}, and write what is missing.", "")
    for outcome in result.behaviours:
        is_shown = outcome.behaviour.name == VISIBLE and not outcome.passed
        why = f": {yours_at(outcome.counterexample)}" if is_shown else ""
        yield f"  {'ok  ' if outcome.passed else 'FAIL'}  {outcome.behaviour.name}{why}"
    score = f"{result.score} of {result.max_score} checks passed"
    yield f"{name}: {score} in {result.seconds:.1f} seconds."
    for outcome in result.behaviours:
        yield from ["", *map(clean, outcome.told)] if outcome.told else ()
    if failed is not None:
        yield from ("", *describe_failure(failed), "", *_advice(result, failed))
    if result.passed:
        yield from _praise(result)


def _praise(result: Result) -> Iterator[str]:
    exercise = result.exercise
    if exercise.finds_bug:
        yield "Passed: this is the first step that breaks a rule."
        return
    levels = [level.passed for level in result.behaviours if level.behaviour.judge is not None]
    how = ": your code gives the results of our own"
    if exercise.runs_in_engine:
        how = ": the engine and the dashboard run on your code"
    yield f"Passed{f', with level {sum(levels)} of {len(levels)}' if levels else how}."
    if exercise.runs_in_engine:
        yield f"See it with `minivllm exercise demo {exercise.name}`."
    yield f"Our own code: {exercise.source_file}"


def describe_failure(failed: BehaviourResult) -> Iterator[str]:
    """The lines that show a failed behaviour: its case, and where the two sides part."""
    found = failed.counterexample
    yield f"First failure: {failed.behaviour.name}."
    if found.failure is not None and (found.failure.kind == "missed" or not found.expected):
        yield f"  {clean(found.failure.text)}"
        return
    is_trace = failed.behaviour.is_trace
    yield f"The smallest {'trace' if is_trace else 'case'} that shows it:"
    if is_trace:
        yield from (f"  {line}" for line in describe_trace(found.case).splitlines())
    begin = max(found.index - _LINES_BEFORE, 0)
    for number, line in enumerate(found.expected[begin : found.index], begin + 1):
        yield f"  {number:>4}  {_readable(line)}"
    yield f"  {found.index + 1:>4}  the engine: {_line_at(found.expected, found.index, None)}"
    yield f"        yours:      {yours_at(found)}"


def not_loaded(failure: Failure) -> str:
    text = clean(failure.text)
    return text if text.endswith(("?", ".")) else f"{text}."


def hint_for(result: Result, failed: BehaviourResult) -> str | None:
    """The misconception's hint, the behaviour's own, or None if it could mislead."""
    failure = failed.failure
    is_about_it = failure is None or failure.is_about_the_code or failure.kind == "time"
    if result.could_not_run is not None or not is_about_it:
        return None
    if result.misconception is not None and failed is result.first_failure:
        return result.misconception.hint
    return failed.behaviour.hint


def yours_at(found: Counterexample) -> str:
    return _line_at(found.actual, found.index, found.failure)


def _line_at(lines: list[str], index: int, failure: Failure | None) -> str:
    if failure is not None and (failure.kind == "missed" or index >= len(lines)):
        return clean(failure.text)
    return _readable(lines[index]) if index < len(lines) else "nothing more happens"


def _readable(line: str) -> str:
    """The line in readable form, if it is an event; any other line unchanged."""
    event = event_of(line)
    return clean(line.strip() if event is None else words_of(event))[:_MOST_CHARACTERS]


def words_of(event: dict[str, object]) -> str:
    fields = (f"{name}={value}" for name, value in event.items() if name not in _ENVELOPE)
    what = broken_promise(event) or f"{event['ev']} {' '.join(fields)}"
    return f"step {event['step']}: {what}"


def broken_promise(event: dict[str, object]) -> str | None:
    """What a violated invariant means, without the objects in the event's details."""
    return f"breaks a promise: {event['name']}" if event["ev"] == "invariant.violated" else None


def event_of(line: str) -> dict[str, object] | None:
    """The event of a line; None for other lines."""
    try:
        event = json.loads(line)
        return event if {"ev", "step"} <= event.keys() else None
    except (ValueError, AttributeError):
        return None


def _advice(result: Result, failed: BehaviourResult) -> Iterator[str]:
    name = result.exercise.name
    if result.is_untouched:
        readme = result.file.with_name("README.md")
        yield f"Read {readme} first; `minivllm exercise hint {name}` prints a hint."
        return
    if result.misconception is not None:
        yield f"Your code behaves as if this were true: {result.misconception.believes}"
    if hint := hint_for(result, failed):
        yield f"Hint: {hint}"
    if result.exercise.finds_bug:
        yield f"`minivllm exercise demo {name}` opens the dashboard, `diff` at the step you name."
    elif any(not outcome.passed and outcome.behaviour.is_trace for outcome in result.behaviours):
        yield f"`minivllm exercise diff {name}` opens the dashboard at the first step that differs."
