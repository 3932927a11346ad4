"""One exercise as a page of the site: what it is about, the heads of what is to be written, what the check compares, two hints.

The solution is open in the repository, but no page shows it or links to it: the holes are taken from the stub, which is
what a student gets, and the last hint, the steps in words, is left to `minivllm exercise hint`. The easy thing to get wrong is
a hole in the middle of a function: what stands around it belongs to the task and is in the student's file, so
only the head of the function is shown.
"""

import ast
from textwrap import dedent

from minivllm.lessons.checker.behaviour import behaviours_of
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.check import VISIBLE_POINTS
from minivllm.lessons.checker.markers import stub
from minivllm.lessons.course.library import find_lesson
from minivllm.lessons.site.lesson_page import link_to
from minivllm.lessons.site.markdown import boxed, to_markdown

SHOWN_HINTS = ("A question", "Where to look")
"""Of the ladder of three: the third, the steps in words, is near the solution."""


def page_name(exercise: Exercise) -> str:
    return f"{exercise.name}.md"


def engine_file(exercise: Exercise) -> str:
    """The engine's file, as it is called in the repository."""
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
About {exercise.minutes} minutes, after lesson {link_to(find_lesson(str(exercise.lesson)), "../tutorial/")}. You write a part of
`{engine_file(exercise)}`, and the engine runs on it.

<!-- not run: makes a folder in the reader's home; tests/exercises/test_cli_exercise.py begins and checks exercises -->
```sh
minivllm exercise start {exercise.name}
```

This makes a folder with `{exercise.student_file}`, this text and a few tests. "This folder" below is that one.
"""


def _holes(exercise: Exercise) -> str:
    heads = "\n\n\n".join(_heads(stub(exercise.source_file.read_text(encoding="utf-8"), exercise.name), exercise.name))
    return f"""\
## The holes

So they stand in your file, each with a `TODO` where the code is missing.

<!-- not run: heads of functions without what they do -->
```python
{heads}
```
"""


def _heads(source: str, name: str) -> list[str]:
    """Each function with a hole, down to the end of its docstring; under a line that names its class."""
    lines = source.splitlines()
    todos = [number for number, line in enumerate(lines, 1) if line.strip().startswith(f"# TODO {name}, part")]
    found: dict[int, str] = {}
    for scope, function in _functions(ast.parse(source)):
        mine = [number for number in todos if function.lineno <= number <= function.end_lineno]
        if mine:
            first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
            head = dedent("\n".join(lines[first - 1 : _end_of_head(function)]))
            parts = ", ".join(line.strip().removeprefix(f"# TODO {name}, ") for line in (lines[n - 1] for n in mine))
            of = f"# of {scope}\n" if scope else ""
            found[first] = f"{of}{head}\n    ...  # TODO {name}, {parts}"
    return [found[line] for line in sorted(found)]


def _functions(tree: ast.Module) -> list[tuple[str, ast.FunctionDef]]:
    """All functions, with the class that they stand in."""
    found = [("", node) for node in tree.body if isinstance(node, ast.FunctionDef)]
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        found += [(owner.name, node) for node in owner.body if isinstance(node, ast.FunctionDef)]
    return found


def _end_of_head(function: ast.FunctionDef) -> int:
    first = function.body[0]
    return first.end_lineno if ast.get_docstring(function) is not None else _last_line_of_signature(function)


def _last_line_of_signature(function: ast.FunctionDef) -> int:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    ends = [one.end_lineno for one in [*arguments, function.returns] if one is not None]
    return max([function.lineno, *ends])


def _check(exercise: Exercise) -> str:
    behaviours = behaviours_of(exercise.behaviours_module())
    rows = "".join(f"| {one.task} | {to_markdown(one.name)} | {one.examples} | {one.points} |\n" for one in behaviours)
    traces = any(one.is_trace for one in behaviours)
    diff = (
        " Where whole runs of the engine are compared, it is event for event, and "
        f"`minivllm exercise diff {exercise.name}` opens the dashboard at the first step that differs."
        if traces
        else ""
    )
    return f"""\
## What the check compares

What happens on your code, and on the engine as it is, in random cases; a case that fails is made as small as it can be.{diff}

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
            f"The third, the steps in words, comes from `minivllm exercise hint {exercise.name}`. Hints cost no points.\n",
        ]
    )


def _run(exercise: Exercise) -> str:
    return f"""\
## How to run it

<!-- not run: needs the folder that `start` made; tests/exercises/test_cli_exercise.py begins and checks exercises -->
```sh
minivllm exercise check {exercise.name}     # red at first; shows the smallest case that fails
minivllm exercise diff {exercise.name}      # the dashboard, at the first step that differs
minivllm exercise demo {exercise.name}      # the dashboard's demo on your code
minivllm exercise next
```

[All exercises](index.md)
"""
