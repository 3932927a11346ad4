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

from minivllm.events.recording.reader import LogReader
from minivllm.lessons.checker.bugs.rules import RULES, RuleTest, check_rules
from minivllm.lessons.checker.cases.behaviour import behaviours_of_hunt
from minivllm.lessons.checker.catalogue import NUM_HINTS, Exercise
from minivllm.lessons.checker.child.sandbox import Failure
from minivllm.lessons.checker.mistakes import Mistake
from minivllm.lessons.checker.result import BehaviourResult, Result
from minivllm.lessons.checker.search import Counterexample

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
    rule, step = behaviours_of_hunt()
    right, answer = first_break(exercise), read_answer(file, _last_step(exercise))
    unread, fitting, visible = None, [], []
    if isinstance(answer, Failure):
        unread = answer if answer.kind != "todo" else None
        visible = [] if unread else [answer.text]
        wrong = [answer, answer]
    else:
        fitting = [mistake for mistake in exercise.mistakes if _answer(mistake) == answer]
        comment = Failure("answer", comment_on(exercise, answer))
        wrong = [
            None if answer.rule == right.rule else comment,
            None if answer == (right.step, right.rule) else comment,
        ]
    results = [
        BehaviourResult(one, failure and Counterexample({}, [], [], 0, failure))
        for one, failure in zip((rule, step), wrong, strict=True)
    ]
    seconds = time.monotonic() - begin
    return Result(exercise, file, unread, visible, results, fitting, seconds, seed)


def read_answer(file: Path, last_step: int) -> HuntAnswer | Failure:
    """Return the answer, or one sentence that says what to change; `todo` if nothing is filled in.

    last_step: the number of the recording's last step
    """
    try:
        with file.open("rb") as opened:
            found = tomllib.loads(opened.read(MAX_ANSWER_BYTES).decode())
    except (ValueError, OSError) as error:
        return _unread(f'it must have two lines, `step = 7` and `rule = "budget"` ({error})')
    step, rule = found.get("step"), found.get("rule")
    if step == 0 and rule == "":
        return Failure("todo", "TODO: fill in step and rule")
    if not isinstance(step, int) or isinstance(step, bool) or not 1 <= step <= last_step:
        return _unread(f"step must be a number from 1 to {last_step}, and is {str(step)[:40]}")
    if rule not in RULES if isinstance(rule, str) else True:
        return _unread(f"rule must be one of {', '.join(RULES)}, and is {str(rule)[:40]!r}")
    return HuntAnswer(step, rule)


def step_of_answer(exercise: Exercise, file: Path) -> int:
    """The step that the student's answer names; 1 if it names none."""
    answer = read_answer(file, _last_step(exercise))
    return answer.step if isinstance(answer, HuntAnswer) else 1


def comment_on(exercise: Exercise, answer: HuntAnswer) -> str:
    """What the recording says about a wrong answer, without the right one."""
    tests = [one for one in _findings(exercise.recording) if one.rule == answer.rule]
    here = [one for one in tests if one.step == answer.step]
    broken = [one for one in here if not one.kept]
    if broken:
        return (
            f"Step {answer.step} does break {answer.rule}: {broken[0].fact} But an earlier step is"
            " the first to go wrong: follow the blocks and sequences of this step back in time."
        )
    if here:
        return (
            f"Step {answer.step} keeps {answer.rule}, each of {len(here)} times, for example:"
            f" {here[-1].fact}"
        )
    steps = len({one.step for one in tests})
    where = (
        f"{steps} other steps of this recording do" if steps else "No step of this recording does"
    )
    return f"Nothing in step {answer.step} puts {answer.rule} to the test. {where}."


def dev_check_hunt(exercise: Exercise) -> Iterator[str]:
    """Yield one sentence for each fault of the exercise itself."""
    right = first_break(exercise)
    if right is None:
        yield f"{exercise.name}: the recording breaks no rule."
        return
    if len(exercise.hints) != NUM_HINTS or not all(exercise.hints):
        yield f"{exercise.name}: there must be {NUM_HINTS} hints."
    answers = [_answer(mistake) for mistake in exercise.mistakes]
    if len(answers) < MIN_MISTAKES:
        yield f"{exercise.name}: there must be at least {MIN_MISTAKES} wrong answers."
    for mistake, answer in zip(exercise.mistakes, answers, strict=True):
        if answer.rule not in RULES or not 1 <= answer.step <= _last_step(exercise):
            yield f"{exercise.name}: {mistake.name} names no step or no rule."
        elif answer == (right.step, right.rule):
            yield f"{exercise.name}: {mistake.name} passes."
        elif answers.count(answer) > 1:
            yield f"{exercise.name}: {mistake.name} has the answer of another mistake."


def _answer(mistake: Mistake) -> HuntAnswer:
    return HuntAnswer(mistake.step, mistake.rule)


def _last_step(exercise: Exercise) -> int:
    return _findings(exercise.recording)[-1].step


def _unread(what: str) -> Failure:
    return Failure("raised", what)
