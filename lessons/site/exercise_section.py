"""The section of an exercise on its topic's page.

It has the text, the functions to write, what the check compares, and two hints. The title and the
first command are visible; a click opens the rest.

A section never shows the solution or a link to it: of each function to write, it has only the
signature and the docstring. The third hint is only in `minivllm exercise hint`.
"""

import re
from textwrap import dedent

from minivllm.lessons.checker.cases.behaviour import behaviours_of
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.holes import find_holes
from minivllm.lessons.site.diagrams import OF_EXERCISES, to_image
from minivllm.lessons.site.markdown import boxed, to_markdown

SHOWN_HINTS = ("A question", "Where to look")
"""Titles of the first two hints. The third hint is too close to the solution for the page."""
FIRST_CHECK = "red at first; shows the smallest failing case"


_HEADING = re.compile(r"^#+ (.*)$")


def anchor(exercise: Exercise) -> str:
    return f"exercise-{exercise.name}"


def engine_file(exercise: Exercise) -> str:
    path = exercise.module.removeprefix("minivllm.").replace(".", "/")
    return f"{path}.py" if path.startswith("kernels/") else f"minivllm/{path}.py"


def exercise_section(exercise: Exercise) -> str:
    text = exercise.readme.partition("\n")[2].strip() + "\n"
    if exercise.is_hunt:
        parts, inside = [text, _hints(exercise)], "The recording, the check and two hints"
    else:
        parts = [
            *_diagram(exercise),
            text,
            _holes(exercise),
            _check(exercise),
            _hints(exercise),
        ]
        inside = "What to write, what the check compares, and two hints"
    body = _without_headings("\n".join([*parts, _run(exercise)]))
    return "\n".join(
        [
            f"### {exercise.title} {{ #{anchor(exercise)} }}\n",
            _begin(exercise),
            boxed("example", inside, body, folded=True),
        ]
    )


def _begin(exercise: Exercise) -> str:
    use = ", and the engine runs with your code" if exercise.runs_in_engine else ""
    task = f"You write a part of `{engine_file(exercise)}`{use}."
    makes = f"`{exercise.student_file}`, this text and a few tests"
    tested = "more/exercises/test_cli_exercise.py begins and checks exercises"
    if exercise.is_hunt:
        task = "You find a fault in a recording: the first step that breaks one of [the rules]"
        task += "(index.md#the-rules)."
        makes = "the recording and a file for your answer"
        tested = "exercises/test_find_the_bug.py begins and checks such exercises"
    return f"""\
Level: {exercise.level}. About {exercise.minutes} minutes. {task}

<!-- not run: makes a folder in the reader's home; tests/{tested} -->
```sh
minivllm exercise start {exercise.name}
```

This makes a folder with {makes}. The text below calls it "this folder".
"""


def _diagram(exercise: Exercise) -> list[str]:
    name = OF_EXERCISES.get(exercise.name)
    return [to_image(name)] if name else []


def _without_headings(text: str) -> str:
    """Make each heading a bold line: the box has one heading, the exercise's title."""
    lines, in_code = [], False
    for line in text.splitlines():
        in_code ^= line.startswith("```")
        lines.append(line if in_code else _HEADING.sub(r"**\1**", line))
    return "\n".join(lines)


def _holes(exercise: Exercise) -> str:
    heads = "\n\n\n".join(_heads(exercise))
    return f"""\
## The holes

Your file has these functions, each with a `TODO` in place of its body.

<!-- not run: functions without their bodies -->
```python
{heads}
```
"""


def _heads(exercise: Exercise) -> list[str]:
    """Each function to write, up to the end of its docstring, below a comment with its class."""
    lines = exercise.source.splitlines()
    heads = []
    for hole in find_holes(exercise):
        of = f"# of {hole.owner}\n" if hole.owner else ""
        head = dedent("\n".join(lines[hole.first - 1 : hole.begin - 1]))
        heads.append(f"{of}{head}\n    ...  # TODO {exercise.name}")
    return heads


def _check(exercise: Exercise) -> str:
    behaviours = behaviours_of(exercise.behaviours_module())
    rows = "".join(
        f"| {one.task} | {to_markdown(one.name)} | {one.examples} |\n" for one in behaviours
    )
    traces = any(one.is_trace for one in behaviours)
    diff = (
        " For whole runs of the engine it compares every event, and `minivllm exercise diff"
        f" {exercise.name}` opens the dashboard at the first step that differs."
        if traces
        else ""
    )
    return f"""\
## What the check compares

The check runs random cases on your code and on the engine's own code, and compares the results. \
It reduces a failing case to the smallest one that still fails.{diff}

| task | what must hold | cases |
|---|---|---|
{rows}| | all tests of `visible_test.py` | |
"""


def _hints(exercise: Exercise) -> str:
    folds = [
        boxed("tip", f"Hint {number}: {kind.lower()}", to_markdown(hint), folded=True)
        for number, (kind, hint) in enumerate(zip(SHOWN_HINTS, exercise.hints, strict=False), 1)
    ]
    return "\n".join(
        [
            "## Hints\n",
            *folds,
            (
                "To read the third, the steps in words, run `minivllm exercise hint"
                f" {exercise.name}`. Hints cost nothing.\n"
            ),
        ]
    )


def _run(exercise: Exercise) -> str:
    in_engine = f"""\
minivllm exercise diff {exercise.name}      # the dashboard, at the first step that differs
minivllm exercise demo {exercise.name}      # the dashboard's demo on your code
"""
    if exercise.is_hunt:
        in_engine = f"""\
minivllm exercise diff {exercise.name}      # the dashboard, at the step of your answer
minivllm exercise demo {exercise.name}      # the dashboard, at the first step
"""
    check = "says what it sees in your step" if exercise.is_hunt else FIRST_CHECK
    shows_engine = exercise.runs_in_engine or exercise.is_hunt
    return f"""\
## How to run it

<!-- not run: needs the folder that `start` made; \
tests/more/exercises/test_cli_exercise.py begins and checks exercises -->
```sh
minivllm exercise check {exercise.name}     # {check}
{in_engine if shows_engine else ""}minivllm exercise next
```
"""
