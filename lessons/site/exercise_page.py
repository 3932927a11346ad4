"""One exercise as a page: its topic, the functions to write, what the check compares, two hints.

No page shows or links the solution, although it is in the repository. Of each hole it shows only
signature and docstring. The last hint is left to `minivllm exercise hint`.
"""

from textwrap import dedent

from minivllm.lessons.checker.cases.behaviour import behaviours_of
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.check import VISIBLE_POINTS
from minivllm.lessons.checker.holes import find_holes
from minivllm.lessons.course.library import find_lesson
from minivllm.lessons.site.lesson_page import link_to
from minivllm.lessons.site.markdown import boxed, to_markdown

SHOWN_HINTS = ("A question", "Where to look")
"""Of three hints; the third is close to the solution."""


def page_name(exercise: Exercise) -> str:
    return f"{exercise.name}.md"


def engine_file(exercise: Exercise) -> str:
    """The path of the engine's file in the repository."""
    path = exercise.module.removeprefix("minivllm.").replace(".", "/")
    return f"{path}.py" if path.startswith("kernels/") else f"minivllm/{path}.py"


def exercise_page(exercise: Exercise) -> str:
    title, _, body = exercise.readme.partition("\n")
    return "\n".join(
        [
            f'---\ndescription: "An exercise of minivllm: {exercise.title}"\n---\n',
            f"{title}\n",
            _begin(exercise),
            body.strip() + "\n",
            _holes(exercise),
            _check(exercise),
            _hints(exercise),
            _run(exercise),
        ]
    )


def _begin(exercise: Exercise) -> str:
    return f"""\
About {exercise.minutes} minutes, after lesson \
{link_to(find_lesson(str(exercise.lesson)), "../tutorial/")}. \
You write a part of
`{engine_file(exercise)}`, and the engine runs on it.

<!-- not run: makes a folder in the reader's home; \
tests/exercises/test_cli_exercise.py begins and checks exercises -->
```sh
minivllm exercise start {exercise.name}
```

This makes a folder with `{exercise.student_file}`, this text and a few tests. \
Below, "this folder" means that one.
"""


def _holes(exercise: Exercise) -> str:
    heads = "\n\n\n".join(_heads(exercise))
    return f"""\
## The holes

In your file they look like this, each with a `TODO` where the code is missing.

<!-- not run: heads of functions without what they do -->
```python
{heads}
```
"""


def _heads(exercise: Exercise) -> list[str]:
    """Each hole up to the end of its docstring, below a line with its class."""
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
        f"| {one.task} | {to_markdown(one.name)} | {one.examples} | {one.points} |\n"
        for one in behaviours
    )
    traces = any(one.is_trace for one in behaviours)
    diff = (
        " Whole runs of the engine are compared event by event, and `minivllm exercise"
        f" diff {exercise.name}` opens the dashboard at the first step that differs."
        if traces
        else ""
    )
    return f"""\
## What the check compares

The check runs your code and the engine's own code on random cases, and compares what happens. \
It reduces a case that fails to the smallest one.{diff}

| task | what must hold | cases | points |
|---|---|---|---|
{rows}| | the tests of `visible_test.py`, all together | | {VISIBLE_POINTS} |
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
                "The third hint, the steps in words, comes from `minivllm exercise hint"
                f" {exercise.name}`. Hints cost no points.\n"
            ),
        ]
    )


def _run(exercise: Exercise) -> str:
    return f"""\
## How to run it

<!-- not run: needs the folder that `start` made; \
tests/exercises/test_cli_exercise.py begins and checks exercises -->
```sh
minivllm exercise check {exercise.name}     # red at first; shows the smallest case that fails
minivllm exercise diff {exercise.name}      # the dashboard, at the first step that differs
minivllm exercise demo {exercise.name}      # the dashboard's demo on your code
minivllm exercise next
```

[All exercises](index.md)
"""
