"""The page of an exercise: its topic, the functions to write, what the check compares, two hints.

A page never shows the solution or a link to it: of each function to write, the page has only the
signature and the docstring. The third hint is only in `minivllm exercise hint`.
"""

from textwrap import dedent

from minivllm.lessons.checker.bugs.rules import RULES
from minivllm.lessons.checker.cases.behaviour import behaviours_of
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.holes import find_holes
from minivllm.lessons.course.library import find_lesson
from minivllm.lessons.site.diagrams import OF_EXERCISES, to_image
from minivllm.lessons.site.lesson_page import link_to
from minivllm.lessons.site.markdown import boxed, to_markdown

SHOWN_HINTS = ("A question", "Where to look")
"""Titles of the first two hints. The third hint is too close to the solution for the page."""


FIRST_CHECK = "red at first; shows the smallest failing case"


def page_name(exercise: Exercise) -> str:
    return f"{exercise.name}.md"


def engine_file(exercise: Exercise) -> str:
    path = exercise.module.removeprefix("minivllm.").replace(".", "/")
    return f"{path}.py" if path.startswith("kernels/") else f"minivllm/{path}.py"


def exercise_page(exercise: Exercise) -> str:
    title, _, body = exercise.readme.partition("\n")
    if exercise.is_hunt:
        parts = [_begin_hunt(exercise), body.strip() + "\n", _rules(), _hints(exercise)]
    else:
        parts = [
            _begin(exercise),
            *_diagram(exercise),
            body.strip() + "\n",
            _holes(exercise),
            _check(exercise),
            _hints(exercise),
        ]
    return "\n".join(
        [
            f'---\ndescription: "An exercise of minivllm: {exercise.title}"\n---\n',
            f"{title}\n",
            *parts,
            _run(exercise),
        ]
    )


def _begin(exercise: Exercise) -> str:
    use = ", and the engine runs with your code" if exercise.runs_in_engine else ""
    return f"""\
Level: {exercise.level}. About {exercise.minutes} minutes, after lesson \
{link_to(find_lesson(str(exercise.lesson)), "../tutorial/")}. \
You write a part of
`{engine_file(exercise)}`{use}.

<!-- not run: makes a folder in the reader's home; \
tests/exercises/test_cli_exercise.py begins and checks exercises -->
```sh
minivllm exercise start {exercise.name}
```

This makes a folder with `{exercise.student_file}`, this text and a few tests. \
The text below calls it "this folder".
"""


def _diagram(exercise: Exercise) -> list[str]:
    name = OF_EXERCISES.get(exercise.name)
    return [to_image(name)] if name else []


def _begin_hunt(exercise: Exercise) -> str:
    return f"""\
About {exercise.minutes} minutes, after lesson \
{link_to(find_lesson(str(exercise.lesson)), "../tutorial/")}. \
You find a fault in a recording.

<!-- not run: makes a folder in the reader's home; \
tests/exercises/test_find_the_bug.py begins and checks such exercises -->
```sh
minivllm exercise start {exercise.name}
```
"""


def _rules() -> str:
    rows = "".join(f"| `{name}` | {rule} |\n" for name, rule in RULES.items())
    return f"## The rules\n\n| rule | what it says |\n|---|---|\n{rows}"


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
    for number, hole in enumerate(find_holes(exercise), 1):
        of = f"# of {hole.owner}\n" if hole.owner else ""
        head = dedent("\n".join(lines[hole.first - 1 : hole.begin - 1]))
        heads.append(f"{of}{head}\n    ...  # TODO {exercise.name}, part {number}")
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
tests/exercises/test_cli_exercise.py begins and checks exercises -->
```sh
minivllm exercise check {exercise.name}     # {check}
{in_engine if shows_engine else ""}minivllm exercise next
```

[All exercises](index.md)
"""
