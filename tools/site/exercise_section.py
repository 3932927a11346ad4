"""The section of an exercise on its topic's page.

The title and the first command are visible; a click opens the text, the functions to write, what
the check compares, and two of three hints. A section never shows the solution: of each function to
write, it has only the signature and the docstring.
"""

import re
from textwrap import dedent

from page_text import ROOT, box, escaped, table

from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.holes import find_holes
from minivllm.lessons.course.library import find_lesson


def exercise_address(exercise: Exercise) -> str:
    """Where the statement of an exercise is, from a page in docs/learn or docs/teach."""
    return f"../learn/{find_lesson(str(exercise.lesson)).name}.md#exercise-{exercise.name}"


def engine_file(exercise: Exercise) -> str:
    return str(exercise.source_file.resolve().relative_to(ROOT))


def exercise_section(exercise: Exercise) -> str:
    if exercise.finds_bug:
        task = (
            "You find a fault in a recording: the first step that breaks one of"
            " [the rules](index.md#the-rules)."
        )
        makes, tested = "the recording and a file for your answer", "exercises/test_find_the_bug.py"
        inside, what = "The recording, the check and two hints", ""
    else:
        use = ", and the engine runs with your code" if exercise.runs_in_engine else ""
        task = f"You write a part of `{engine_file(exercise)}`{use}."
        makes, tested = (
            f"`{exercise.student_file}`, this text and a few tests",
            "more/exercises/test_cli_exercise.py",
        )
        inside = "What to write, what the check compares, and two hints"
        what = _what_to_write(exercise)
    text = re.sub(r"^##+ (.*)$", r"**\1**", exercise.readme.partition("\n")[2], flags=re.M)
    return f"""\
### {exercise.title} {{ #exercise-{exercise.name} }}

Level: {exercise.level}. About {exercise.minutes} minutes. {task}

<!-- not run: makes a folder in the reader's home; tests/{tested} begins and checks exercises -->
```sh
minivllm exercise start {exercise.name}
minivllm exercise check {exercise.name}    # fails at first; shows the smallest failing case
```

The first makes a folder with {makes}. The text below calls it "this folder". \
[The other commands](index.md#exercises) are the same for every exercise.

{box("example", inside, f"{text.strip()}{what}{_hints(exercise)}")}"""


def _what_to_write(exercise: Exercise) -> str:
    lines, heads = exercise.source.splitlines(), []
    for hole in find_holes(exercise):
        owner = hole.name.rpartition(".")[0]
        of = f"# of {owner}\n" if owner else ""
        head = dedent("\n".join(lines[hole.first - 1 : hole.begin - 1]))
        heads.append(f"{of}{head}\n    ...  # TODO {exercise.name}")
    functions = "\n\n\n".join(heads)
    behaviours = exercise.behaviours()[:-1]
    rows = [(part.task, escaped(part.name), part.examples) for part in behaviours]
    compared = table(
        ("task", "what must hold", "cases"), [*rows, ("", "all tests of `visible_test.py`", "")]
    )
    diff = " Of whole runs it compares all events: `minivllm exercise diff` shows the difference."
    return f"""

**The holes**

Your file has these functions, each with a `TODO` in place of its body.

<!-- not run: functions without their bodies -->
```python
{functions}
```

**What the check compares**

The check runs random cases on your code and on the engine's own code, and compares the results. \
It reduces a failing case to the smallest one that still \
fails.{diff if any(behaviour.is_trace for behaviour in behaviours) else ""}

{compared.strip()}"""


def _hints(exercise: Exercise) -> str:
    question, where, *_ = exercise.hints
    return f"""

**Hints**

{box("tip", "Hint 1: a question", escaped(question))}
{box("tip", "Hint 2: where to look", escaped(where))}
To read the third, the steps in words, run `minivllm exercise hint {exercise.name}`. Hints cost \
nothing.
"""
