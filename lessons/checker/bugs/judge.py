"""Judges the answer to "find the bug": which step of a recording was the first to break which rule?

An answer file has two lines, and is read, never run. The right answer is in `mistakes.toml`, and
`dev_check` compares the recording with the engine's own run.
"""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from minivllm.lessons.checker.catalogue import INFO, Exercise
from minivllm.lessons.checker.report import event_of, words_of
from minivllm.lessons.checker.result import BehaviourResult, Failure, Result, result_without_cases


class BugAnswer(NamedTuple):
    step: int
    rule: str


RULES = INFO["rule"]
"""Name -> what it says, and the kinds of `events` that put it to the test."""
ANSWER_STUB = (
    "# The first step that breaks a rule, and the rule's name:\n"
    'step = 0\nrule = ""\n\n# The rules:\n'
) + "".join(f"#   {name:<13} {rule['says']}\n" for name, rule in RULES.items())


def right_answer(exercise: Exercise) -> BugAnswer:
    return BugAnswer(**exercise.recipe["answer"])


def judge(exercise: Exercise, file: Path) -> Result:
    """Compare the answer in `file` with the right one. Any file gets a result."""
    right, answer = right_answer(exercise), read_answer(exercise, file)
    if isinstance(answer, Failure):
        result = result_without_cases(exercise, file, answer)
        return result._replace(could_not_run=None) if answer.kind == "todo" else result
    result = result_without_cases(exercise, file, Failure("answer", comment_on(exercise, answer)))
    passed = (answer.rule == right.rule, answer == right, True)
    pairs = zip(result.behaviours, passed, strict=True)
    found = [BehaviourResult(old.behaviour, None) if is_right else old for old, is_right in pairs]
    fitting = [mistake for mistake in exercise.mistakes if (mistake.step, mistake.rule) == answer]
    return result._replace(could_not_run=None, behaviours=found, fitting=fitting)


def read_answer(exercise: Exercise, file: Path) -> BugAnswer | Failure:
    """Return the answer, or a failure: what to change, or `todo` if nothing is filled in."""
    last_step = events_in(exercise.recording)[-1]["step"]
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
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
    return BugAnswer(step, rule)


def comment_on(exercise: Exercise, answer: BugAnswer) -> str:
    """What the recording says about a wrong answer, without the right one."""
    (step, rule), tests = answer, tests_of(exercise, answer)
    if not tests:
        return f"Nothing in step {step} puts {rule} to the test."
    its = f"the last of {len(tests)} events that put" if tests[1:] else "the only event that puts"
    test = f"{its} it to the test is {words_of(tests[-1])}"
    return f"Step {step} is not the first to break {rule}: {test}."


def events_in(recording: Path) -> list[dict[str, Any]]:
    found = map(event_of, recording.read_text(encoding="utf-8").splitlines())
    return [event for event in found if event]


def tests_of(exercise: Exercise, answer: BugAnswer) -> list[dict[str, Any]]:
    """The step's events that put the rule to the test."""
    step, kinds = answer.step, RULES[answer.rule]["events"]
    events = events_in(exercise.recording)
    return [event for event in events if event["step"] == step and event["ev"] in kinds]
