"""The page of all topics and all exercises, both in the order of the course.

Titles and minutes come from the lessons and exercises; all other cells come from `COURSE`.
"""

from minivllm.lessons.checker.bugs.rules import RULES
from minivllm.lessons.checker.catalogue import Exercise, exercises
from minivllm.lessons.course.course import COURSE, SCREENS, VIEWS, Concept
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.lessons.site.exercise_section import engine_file
from minivllm.lessons.site.picks import PICKS
from minivllm.lessons.site.topic_page import exercise_address, link_to, page_name
from minivllm.lessons.teacher.script import Lesson


def learn_index() -> str:
    """docs/learn/index.md."""
    return "".join([*_topics(), *_ideas(), *_exercises(), *_rules()])


def _topics() -> list[str]:
    parts = [_TOPICS, _HEAD]
    for one in lessons():
        if one.track == "kernels" and _KERNELS not in parts:
            parts += [_KERNELS, _HEAD]
        needs = ", ".join(str(find_lesson(name).number) for name in one.needs) or "nothing"
        parts.append(f"| {link_to(one)} | {one.minutes} | {PICKS[one.name].teaches} | {needs} |\n")
    return [*parts, _HOW_TO_RUN]


def _ideas() -> list[str]:
    return [
        _IDEAS,
        *(
            f"| {one.name} | {_number(find_lesson(one.lesson))} | {_views(one)} |\n"
            for one in COURSE
        ),
    ]


def _exercises() -> list[str]:
    parts = [_EXERCISES]
    for one in exercises():
        topic = _number(find_lesson(str(one.lesson)))
        parts.append(
            f"| [{one.title}]({exercise_address(one)}) | {topic} | {one.level} | {one.minutes} |"
            f" {_what(one)} |\n"
        )
    return [*parts, _HOW_IT_GOES]


def _rules() -> list[str]:
    return [_RULES, *(f"| `{name}` | {rule} |\n" for name, rule in RULES.items())]


def _number(lesson: Lesson) -> str:
    return f"[{lesson.number}]({page_name(lesson)})"


def _what(exercise: Exercise) -> str:
    if exercise.is_hunt:
        return "the first wrong step of a recording"
    return f"{_written(exercise.symbol)} in `{engine_file(exercise)}`"


def _written(symbols: str) -> str:
    return ", ".join(f"`{symbol}`" for symbol in symbols.split(", "))


def _views(concept: Concept) -> str:
    views = (VIEWS[panel] for panel in concept.panels)
    return ", ".join(f"{view.name} (key {1 + SCREENS.index(view.screen)})" for view in views)


_TOPICS = """\
---
description: The topics of minivllm, one page each, from the first token to vLLM's source
---

# Learn

Each topic is one page: a lesson of about ten minutes, its ideas in short, and its exercises. A \
lesson runs the real engine step by step. Before each step it asks what you expect, and then the \
engine shows the answer. Each claim is checked on the engine.

There are two ways to take a lesson.

- **On the pages below**, which were made by running the same lessons: the same text, folded \
answers, and the lesson's own run, which you can step through. You need to install nothing.
- **In the terminal**, with the dashboard beside the text. Your guesses are scored, and you can \
explore every picture.

The [glossary](glossary.md) has every term in one or two sentences. The \
[reading list](reading-list.md) says which papers and posts to read after which lesson, and \
[what articles say](what-articles-say.md) checks popular claims.

## Three words used on every page

- A **token** is a piece of text, identified by a number. The model reads the tokens so far and \
predicts the next one.
- A **step** is one pass of the model over some tokens of some sequences. One step serves many \
sequences.
- A **sequence** is one growing text: a prompt and the tokens generated after it. A **request** is \
what a caller sends; it has one sequence for each answer that the caller wants.

## The topics

If you have one hour, take 0, 1, 2, 3, 4 and 8. For scheduling, take 5, 6, 7 and 10; for kernels, 17 \
and 18.
"""

_HEAD = """
| topic | minutes | what you learn | after |
|---|---|---|---|
"""

_KERNELS = """
**The kernel track** is about the code that a GPU runs. No other lesson needs it, so take it when \
you like.
"""

_HOW_TO_RUN = """
## How to run a lesson

`minivllm` is in the environment that `make` created: `source .venv/bin/activate` puts it on your \
path.

<!-- not run: opens the dashboard and waits for guesses; tests/more/cli/test_lesson.py runs these \
options -->
```sh
minivllm lesson                       # go on where you left off, or begin
minivllm lesson list                  # the list, and your progress
minivllm lesson 3                     # in the dashboard
minivllm lesson 3 --plain             # in any terminal, or in a pipe
minivllm lesson 3 --auto --plain      # the whole lesson at once
minivllm lesson 3 --from 9            # from its ninth page on
minivllm lesson 3 --transcript f.md   # as a page of Markdown
```

`space` goes on and `b` goes back in time. While a question is open, you type your guess. The \
keys `1` to `6` open
the dashboard's own screens with the lesson's engine, and `0` returns to the lesson.
"""

_IDEAS = """
## Where each idea is

Each idea with the lesson that explains it, and the panels of the \
[dashboard](../start/dashboard.md) that show it for any run.

| idea | topic | in the dashboard |
|---|---|---|
"""

_EXERCISES = """
## Exercises

In an exercise you write part of the engine. Your file is the engine's own file, without the \
bodies of a few functions. When it passes, the engine and the dashboard run on your code.

The *core* exercises are about the ideas that all others build on. The *standard* ones go \
further. The *stretch* ones are long, or need knowledge that the lessons do not teach. Take each \
after its lesson. Those at the end of the list, after the kernels, are electives: no other \
exercise builds on them. None needs a GPU.

| exercise | topic | level | minutes | what you write |
|---|---|---|---|---|
"""
_HOW_IT_GOES = """
<!-- not run: makes a folder in the reader's home; tests/more/exercises/test_cli_exercise.py begins and \
checks exercises -->
```sh
minivllm exercise list                # all exercises, and your progress
minivllm exercise start block-pool    # a folder outside the repository
minivllm exercise check block-pool    # fails at first; shows the smallest failing case
minivllm exercise check --watch       # runs again at each save
minivllm exercise hint block-pool     # the next of three hints
minivllm exercise diff block-pool     # the dashboard, at the first step that differs
minivllm exercise demo block-pool     # the dashboard's demo on your code
minivllm exercise demo --all-passed   # one engine on everything that you have passed
minivllm exercise next
```

A check runs the same random cases on your code and on the original engine, and compares what \
happens. There is no list of expected values. The check shrinks a failing case as far as \
possible, and it names a common mistake.

The solution is the engine's own source, which is in this repository. Whether you look at it is \
up to you. Hints are counted, but they cost nothing.

For teachers: [grading a class, and what the limits prevent](../teach/grading.md).
"""
_RULES = """
### The rules

An exercise *Find the bug* gives you a recording of an engine in which one function has a fault. \
Your answer is the first step that breaks one of these rules, and the rule.

| rule | what it says |
|---|---|
"""
