"""The result of a check in words: what passes, the smallest failing case, and what to try next.

Text from a student's code is cleaned, because it can contain escape sequences. If the student has
written nothing yet, the report says that the failure is expected: otherwise the student might think
that the installation is broken.
"""

import json
from collections.abc import Iterator

from minivllm.lessons.checker.cases.traces import describe_trace
from minivllm.lessons.checker.child.sandbox import Failure
from minivllm.lessons.checker.result import BehaviourResult, Result
from minivllm.lessons.checker.search import Counterexample
from minivllm.text import clean

VISIBLE = "the tests of visible_test.py"
_LINES_BEFORE = 4
_MOST_CHARACTERS = 400
_WITHOUT_HINT = ("todo", "memory", "output", "exit", "channel", "died")
"""Failures for which the behaviour's hint would not help."""


def report(result: Result, first_todo: int | None = None) -> Iterator[str]:
    """Yield the lines of the report, for a terminal.

    first_todo: line number of the first TODO in the student's file
    """
    name = result.exercise.name
    if result.could_not_run is not None:
        yield f"{name}: {result.file} could not be loaded: {not_loaded(result.could_not_run)}"
        return
    if result.is_untouched and first_todo is not None:
        yield (
            f"This failure is expected, and nothing is broken: open {result.file}, line"
            f" {first_todo}, and write what is missing."
        )
        yield ""
    for one in result.behaviours:
        yield f"  {'ok  ' if one.passed else 'FAIL'}  {one.behaviour.name}"
    if result.exercise.is_hunt:
        yield from _end_of_hunt(result)
        return
    if result.visible:
        more = f", and {len(result.visible) - 1} more" if len(result.visible) > 1 else ""
        yield f"  FAIL  {VISIBLE}: {clean(result.visible[0])}{more}"
    else:
        yield f"  ok    {VISIBLE}"
    yield (
        f"{name}: {result.score} of {result.max_score} checks passed in {result.seconds:.1f}"
        " seconds."
    )
    for one in result.behaviours:
        yield from ["", *map(clean, one.told)] if one.told else ()
    failed = result.first_failure
    if failed is not None:
        yield ""
        yield from describe_failure(failed)
        yield from _advice(result, failed)
    levels = [one for one in result.behaviours if one.behaviour.judge is not None]
    if result.passed:
        if levels:
            yield f"Passed, with level {sum(one.passed for one in levels)} of {len(levels)}."
            yield f"See your policy at work with `minivllm exercise demo {name}`."
        elif result.exercise.runs_in_engine:
            yield (
                "Passed: the engine and the dashboard run on your code. See it with `minivllm"
                f" exercise demo {name}`."
            )
        else:
            yield "Passed: your code gives the results of our own."
        yield f"Our own code: {result.exercise.source_file}"


def _end_of_hunt(result: Result) -> Iterator[str]:
    """The rest of the report of a "find the bug" exercise."""
    name, failed = result.exercise.name, result.first_failure
    yield f"  {'FAIL' if result.visible else 'ok  '}  a step and a rule are given"
    yield f"{name}: {result.score} of {result.max_score} checks passed."
    yield ""
    if failed is None:
        yield "Passed: this is the first step that breaks a rule."
    elif not result.is_untouched:
        yield failed.counterexample.failure.text
    if result.misconception is not None:
        yield f"Your answer fits this belief: {result.misconception.believes}"
        yield f"Hint: {result.misconception.hint}"
    if failed is not None:
        yield f"`minivllm exercise demo {name}` opens the dashboard, `diff` at the step you name."


def describe_failure(failed: BehaviourResult) -> Iterator[str]:
    """The lines that show a failed behaviour: its case, and where the two sides part."""
    found = failed.counterexample
    yield f"First failure: {failed.behaviour.name}."
    if found.failure is not None and found.failure.kind == "missed":
        yield f"  {clean(found.failure.text)}"
        return
    if failed.behaviour.is_trace:
        yield "The smallest trace that shows it:"
        yield from (f"  {line}" for line in describe_trace(found.case).splitlines())
    else:
        yield "The smallest case that shows it:"
    begin = max(found.index - _LINES_BEFORE, 0)
    for number, line in enumerate(found.expected[begin : found.index], begin + 1):
        yield f"  {number:>4}  {readable_line(line)}"
    yield f"  {found.index + 1:>4}  the engine: {engines_at(found)}"
    yield f"        yours:      {clean(yours_at(found))}"


def not_loaded(failure: Failure) -> str:
    """Why a file could not be loaded, as the end of a sentence."""
    text = clean(failure.text)
    return text if text.endswith(("?", ".")) else f"{text}."


def hint_for(result: Result, failed: BehaviourResult) -> str | None:
    """The hint for a failed behaviour, or None if it could mislead.

    The first failure gets the misconception's hint, if one fits.
    """
    failure = failed.counterexample.failure
    if result.could_not_run is not None or (failure is not None and failure.kind in _WITHOUT_HINT):
        return None
    if result.misconception is not None and failed is result.first_failure:
        return result.misconception.hint
    return failed.behaviour.hint


def yours_at(found: Counterexample) -> str:
    if found.failure is not None and found.failure.kind == "missed":
        return found.failure.text
    if found.index < len(found.actual):
        return readable_line(found.actual[found.index])
    return found.failure.text if found.failure is not None else "nothing more happens"


def engines_at(found: Counterexample) -> str:
    return (
        readable_line(found.expected[found.index])
        if found.index < len(found.expected)
        else "nothing more happens"
    )


def readable_line(line: str) -> str:
    """The line in readable form, if it is an event; any other line unchanged."""
    text = line.strip()
    if text.startswith("{"):
        try:
            event = json.loads(text)
            fields = " ".join(
                f"{name}={value}"
                for name, value in event.items()
                if name not in ("ev", "seq", "step", "t")
            )
            text = f"step {event['step']}: {event['ev']} {fields}"
        except (ValueError, KeyError, AttributeError):
            pass  # the line is not an event after all
    return clean(text)[:_MOST_CHARACTERS]


def _advice(result: Result, failed: BehaviourResult) -> Iterator[str]:
    name = result.exercise.name
    yield ""
    if result.is_untouched:
        yield (
            f"Read {result.file.with_name('README.md')} first; `minivllm exercise hint"
            f" {name}` prints a hint."
        )
        return
    if result.misconception is not None:
        yield f"Your code behaves as if this were true: {result.misconception.believes}"
    if hint := hint_for(result, failed):
        yield f"Hint: {hint}"
    if any(not one.passed and one.behaviour.is_trace for one in result.behaviours):
        yield f"`minivllm exercise diff {name}` opens the dashboard at the first step that differs."


def step_of_difference(found: Counterexample) -> int:
    """The engine's step at the first different line; its last step if it has no such line."""
    return json.loads(found.expected[min(found.index, len(found.expected) - 1)])["step"]


def step_of(line: str) -> int | None:
    """The step of an event line from the student's code; None for other lines."""
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        return None
