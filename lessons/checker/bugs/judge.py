"""Judges the answer to "find the bug": which step of a recording was the first to break which rule?

An answer file has two lines, and is read, never run. The right answer is in `mistakes.toml`, and
`dev_check` compares the recording with the engine's own run.
"""

import tomllib
from pathlib import Path
from typing import NamedTuple

from minivllm.lessons.checker.catalogue import FOLDER, Exercise
from minivllm.lessons.checker.report import event_of, readable_line
from minivllm.lessons.checker.result import (
    BehaviourResult,
    Counterexample,
    Failure,
    Result,
    result_without_cases,
)

MAX_ANSWER_BYTES = 10_000


class Rule(NamedTuple):
    says: str
    events: list[str]
    """The kinds of events that put the rule to the test."""


class HuntAnswer(NamedTuple):
    step: int
    rule: str


_ENTRIES = tomllib.loads((FOLDER / "info.toml").read_text(encoding="utf-8"))["rule"]
RULES = {name: Rule(**entry) for name, entry in _ENTRIES.items()}
ANSWER_STUB = (
    "# The first step that breaks a rule, and the rule's name:\n"
    'step = 0\nrule = ""\n\n# The rules:\n'
) + "".join(f"#   {name:<13} {rule.says}\n" for name, rule in RULES.items())
"""The answer file of every exercise, to be filled in."""


def right_answer(exercise: Exercise) -> HuntAnswer:
    return HuntAnswer(**exercise.recipe["answer"])


def judge(exercise: Exercise, file: Path) -> Result:
    """Compare the answer in `file` with the right one. Any file gets a result."""
    right, answer = right_answer(exercise), read_answer(exercise, file)
    if isinstance(answer, Failure):
        result = result_without_cases(exercise, file, answer)
        return result._replace(could_not_run=None) if answer.kind == "todo" else result
    wrong = Counterexample({}, [], [], 0, Failure("answer", comment_on(exercise, answer)))
    passed = (answer.rule == right.rule, answer == right, True)
    results = [
        BehaviourResult(one, None if is_right else wrong)
        for one, is_right in zip(exercise.behaviours(), passed, strict=True)
    ]
    fitting = [one for one in exercise.mistakes if (one.step, one.rule) == answer]
    return Result(exercise, file, None, results, fitting, 0.0, 0)


def read_answer(exercise: Exercise, file: Path) -> HuntAnswer | Failure:
    """Return the answer, or a failure: what to change, or `todo` if nothing is filled in."""
    last_step = event_of(lines_of(exercise)[-1])["step"]
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
    tests = tests_of(exercise, answer)
    if not tests:
        return f"Nothing in step {step} puts {rule} to the test."
    shown = f"the last of {len(tests)} events that put it to the test is {readable_line(tests[-1])}"
    return f"Step {step} is not the first to break {rule}: {shown}."


def lines_of(exercise: Exercise) -> list[str]:
    return exercise.recording.read_text(encoding="utf-8").splitlines()


def tests_of(exercise: Exercise, answer: HuntAnswer) -> list[str]:
    """The lines of the step's events that put the rule to the test."""
    step, kinds = answer.step, RULES[answer.rule].events
    found = [(event_of(line) or {}, line) for line in lines_of(exercise)]
    return [line for event, line in found if event.get("step") == step and event["ev"] in kinds]
