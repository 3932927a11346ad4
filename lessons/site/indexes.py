"""The lists of all lessons and of all exercises, in the order of the course.

Titles and minutes come from the lessons and exercises, the rest from the table of the course.
"""

from minivllm.lessons.checker.catalogue import exercises, find_exercise
from minivllm.lessons.course.course import COURSE, SCREENS, VIEWS, Concept
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.lessons.site.exercise_page import engine_file
from minivllm.lessons.site.exercise_page import page_name as exercise_file
from minivllm.lessons.site.lesson_page import link_to
from minivllm.lessons.site.lesson_page import page_name as lesson_file
from minivllm.lessons.site.picks import PICKS


def lessons_index() -> str:
    """docs/tutorial/index.md."""
    parts = [_LESSONS]
    for one in lessons():
        needs = ", ".join(str(find_lesson(name).number) for name in one.needs) or "nothing"
        parts.append(f"| {link_to(one)} | {one.minutes} | {PICKS[one.name].teaches} | {needs} |\n")
    parts.append(_PLACES)
    parts += [
        f"| {one.name} | {_lesson(one)} | {_views(one)} | {_exercises(one)} |\n" for one in COURSE
    ]
    return "".join(parts)


def exercises_index() -> str:
    """docs/exercises/index.md."""
    parts = [_EXERCISES]
    for one in exercises():
        lesson = find_lesson(str(one.lesson))
        parts.append(
            f"| [{one.title}]({exercise_file(one)}) |"
            f" [{one.lesson}](../tutorial/{lesson_file(lesson)}) | {one.minutes} |"
            f" {_written(one.symbol)} in `{engine_file(one)}` |\n"
        )
    parts.append(_HOW)
    return "".join(parts)


def _lesson(concept: Concept) -> str:
    lesson = find_lesson(concept.lesson)
    return f"[{lesson.number}]({lesson_file(lesson)})"


def _exercises(concept: Concept) -> str:
    found = [find_exercise(name) for name in concept.exercises]
    return ", ".join(f"[{one.name}](../exercises/{exercise_file(one)})" for one in found)


def _written(symbols: str) -> str:
    return ", ".join(f"`{symbol}`" for symbol in symbols.split(", "))


def _views(concept: Concept) -> str:
    views = (VIEWS[panel] for panel in concept.panels)
    return ", ".join(f"{view.name} (key {1 + SCREENS.index(view.screen)})" for view in views)


_LESSONS = """\
---
description: The lessons of minivllm, one page each
---

# Tutorial

Lessons of about ten minutes each, from a token to vLLM's source code. A lesson runs the real \
engine, which moves only
when you press a key. It asks what will happen before it shows it, and each claim is checked on \
the engine while you read.

There are two ways to take a lesson.

- **In the terminal**, with the dashboard beside the text. Your guesses are scored, and you can \
explore every picture.
- **On the pages below**, which were written while the lessons ran: the same text, folded answers, \
and pictures of the
  important moments. You need not install anything.

| lesson | minutes | what you see | after |
|---|---|---|---|
"""

_PLACES = """
If you have one hour, take 1, 2, 3, 4 and 8. If you come for scheduling, take 6, 7 and 10; for \
kernels, 5 and 12.

## How to run one

`minivllm` is in the environment that `make` created: `source .venv/bin/activate` puts it on your \
path.

<!-- not run: opens the dashboard and waits for guesses; tests/cli/test_lesson.py runs these \
options -->
```sh
minivllm lesson                       # the list, and how far you are
minivllm lesson 3                     # in the dashboard
minivllm lesson 3 --plain             # in any terminal, or in a pipe
minivllm lesson 3 --auto --plain      # all of it at once
minivllm lesson 3 --from 9            # from its ninth page on
minivllm lesson 3 --transcript f.md   # as a page of Markdown
```

`space` goes to the next page, and `b` goes back. While a question is open, type your guess. \
The keys `1` to `6` open
the dashboard's own screens on the lesson's engine; `0` returns to the lesson.

## Where each idea is

For each idea: the lesson that explains it, the [dashboard](../dashboard.md) panels that show it \
in any run, and the exercises.

| idea | lesson | in the dashboard | exercises |
|---|---|---|---|
"""

_EXERCISES = """\
---
description: The exercises of minivllm, which are written into the engine
---

# Exercises

In a lesson you watch; in an exercise you write code. Its file is the engine's own file with some \
functions left empty. When
your code passes, the engine and the dashboard run on it.

Start with any exercise that interests you, after its lesson. None needs a GPU.

| exercise | lesson | minutes | what you write |
|---|---|---|---|
"""
_HOW = """
## How it goes

`minivllm` is in the environment that `make` created: `source .venv/bin/activate` puts it on your \
path.

<!-- not run: makes a folder in the reader's home; tests/exercises/test_cli_exercise.py begins and \
checks exercises -->
```sh
minivllm exercise list                # all of them, and how far you are
minivllm exercise start block-pool    # a folder outside the repository
minivllm exercise check block-pool    # red at first; shows the smallest case that fails
minivllm exercise check --watch       # again at each save
minivllm exercise hint block-pool     # one of three hints, a step at a time
minivllm exercise diff block-pool     # the dashboard, at the first step that differs
minivllm exercise demo block-pool     # the dashboard's demo on your code
minivllm exercise next
```

A check runs the same random cases on your code and on the engine's own code, and compares what \
happens. There is no list of
expected values. A case that fails is reduced to the smallest one, and a common mistake is named.

The solution is the engine's own source: your file is that source without the bodies of a few \
functions. You can look at it;
that is up to you. Hints are counted and cost nothing.

If you teach, [this page](../teach.md) explains how to grade a class, and what the limits stop.
"""
