"""Judges the answer to "find the bug": which step of a recording was the first to break which rule?

The right answer is not stored anywhere: `rules.check_rules` finds it in the recording. An answer
file has two lines, and is read, never run.
"""

import time
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from minivllm.events.recording.lines import encode_event
from minivllm.events.recording.reader import LogReader
from minivllm.lessons.checker.bugs.rules import RULES, RuleTest, check_rules
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.report import readable_line
from minivllm.lessons.checker.result import (
    BehaviourResult,
    Counterexample,
    Failure,
    Result,
    result_without_cases,
)

MIN_MISTAKES = 3
MAX_ANSWER_BYTES = 10_000


class HuntAnswer(NamedTuple):
    step: int
    rule: str


def first_break(exercise: Exercise) -> RuleTest | None:
    """The first test of a rule that the recording fails; None if it breaks no rule."""
    return next((one for one in _findings(exercise.recording) if not one.kept), None)


@cache  # for every submission of a class
def _findings(recording: Path) -> tuple[RuleTest, ...]:
    reader = LogReader(recording)
    return tuple(check_rules(reader.header, reader))


def judge(exercise: Exercise, file: Path, *, seed: int = 0) -> Result:
    """Compare the answer in `file` with the recording. Any file gets a result."""
    begin = time.monotonic()
    right, answer = first_break(exercise), read_answer(exercise, file)
    if isinstance(answer, Failure):
        result = result_without_cases(exercise, file, answer, time.monotonic() - begin, seed)
        return result._replace(could_not_run=None) if answer.kind == "todo" else result
    wrong = Counterexample({}, [], [], 0, Failure("answer", comment_on(exercise, answer)))
    passed = (answer.rule == right.rule, answer == (right.step, right.rule), True)
    results = [
        BehaviourResult(one, None if is_right else wrong)
        for one, is_right in zip(exercise.behaviours(), passed, strict=True)
    ]
    fitting = [one for one in exercise.mistakes if (one.step, one.rule) == answer]
    return Result(exercise, file, None, results, fitting, time.monotonic() - begin, seed)


def read_answer(exercise: Exercise, file: Path) -> HuntAnswer | Failure:
    """Return the answer, or a failure: what to change, or `todo` if nothing is filled in."""
    last_step = _findings(exercise.recording)[-1].step
    try:
        with file.open("rb") as opened:
            found = tomllib.loads(opened.read(MAX_ANSWER_BYTES).decode())
        step, rule = found.get("step"), found.get("rule")
        if (step, rule) == (0, ""):
            return Failure("todo", "TODO: fill in step and rule")
        if type(step) is not int or not 1 <= step <= last_step:
            raise ValueError(f"step is {str(step)[:40]}, and must be from 1 to {last_step}")
        if not isinstance(rule, str) or rule not in RULES:
            raise ValueError(f"rule is {str(rule)[:40]!r}, and must be one of {', '.join(RULES)}")
    except (ValueError, OSError) as error:
        what = f'it must have two lines, `step = 7` and `rule = "budget"` ({error})'
        return Failure("raised", what)
    return HuntAnswer(step, rule)


def comment_on(exercise: Exercise, answer: HuntAnswer) -> str:
    """What the recording says about a wrong answer, without the right one."""
    step, rule = answer
    tests = [one for one in _findings(exercise.recording) if one.rule == rule]
    here = [one for one in tests if one.step == step]
    if not here:
        others = f"{len({one.step for one in tests})} other steps of this recording do."
        return f"Nothing in step {step} puts {rule} to the test. {others}"
    broken = [one for one in here if not one.kept]
    line = readable_line(encode_event((broken or here)[-1].event).decode())
    if broken:
        earlier = "But an earlier step is the first to go wrong: follow its blocks back in time."
        return f"Step {step} does break {rule} ({line}). {earlier}"
    return f"Step {step} keeps {rule}, each of {len(here)} times, for example: {line}."


def faults_of_hunt(exercise: Exercise) -> Iterator[str]:
    """Yield one sentence for each fault of the exercise itself."""
    right, answers = first_break(exercise), [(one.step, one.rule) for one in exercise.mistakes]
    if right is None:
        yield "the recording breaks no rule"
        return
    if len(set(answers)) < max(len(answers), MIN_MISTAKES):
        yield f"there must be at least {MIN_MISTAKES} wrong answers, and no two alike"
    last_step = _findings(exercise.recording)[-1].step
    for mistake in exercise.mistakes:
        if mistake.rule not in RULES or not 1 <= mistake.step <= last_step:
            yield f"{mistake.name} names no step or no rule"
        if (mistake.step, mistake.rule) == (right.step, right.rule):
            yield f"{mistake.name} passes"
