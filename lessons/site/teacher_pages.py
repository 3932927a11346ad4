"""For teachers: the tables of a course by week, and the page of what students believe.

A week ends with the lesson that `WEEKS` names, so a new lesson falls into a week by its number. The
lessons on GPU kernels are the last week, whatever their numbers. The beliefs are those that lessons
and checks answer: `why` of a question, and the mistakes.toml of an exercise.
"""

from pathlib import Path
from typing import NamedTuple

from minivllm.lessons.checker.catalogue import Exercise, exercises
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.lessons.site.markdown import to_markdown, with_region
from minivllm.lessons.site.picks import PICKS
from minivllm.lessons.site.topic_page import exercise_address, exercises_of, link_to, page_name
from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.lessons.teacher.questions import questions_of
from minivllm.lessons.teacher.script import Lesson

TEACH = Path(__file__).resolve().parents[2] / "docs/teach/index.md"


class Week(NamedTuple):
    about: str
    last: str
    """Name of the last lesson of the week."""


WEEKS = (
    Week("Tokens, the KV cache, and what reserving memory costs", "naive-serving"),
    Week("Blocks, and batches that change in every step", "batching"),
    Week("One pass for many lengths, and one token budget for each step", "token-budget"),
    Week("Prefix sharing, and copies when sharers write", "copy-on-write"),
    Week("Too little memory, and serving", "serving"),
    Week("Fewer bytes, more tokens for each step, grammar, and vLLM's source", "way-to-vllm"),
)
KERNELS = "Attention as a GPU kernel (optional; needs no GPU)"


def lessons_by_week() -> list[tuple[str, list[Lesson]]]:
    weeks: list[tuple[str, list[Lesson]]] = []
    rest = [one for one in lessons() if not one.watches_kernels]
    for week in WEEKS:
        last = find_lesson(week.last).number
        weeks.append((week.about, [one for one in rest if one.number <= last]))
        rest = [one for one in rest if one.number > last]
    kernels = [one for one in lessons() if one.watches_kernels]
    return [*weeks, (KERNELS, [*rest, *kernels])]


def teach_index() -> str:
    """docs/teach/index.md: all but the tables of the course is written by hand."""
    return with_region(TEACH.read_text(encoding="utf-8"), "course", course_tables())


def course_tables() -> str:
    parts = [_WEEKS]
    for number, (about, taught) in enumerate(lessons_by_week(), 1):
        minutes = sum(one.minutes for one in taught)
        own = [one for lesson in taught for one in exercises_of(lesson)]
        write = ", ".join(
            f"[{one.name}]({exercise_address(one, _LEARN)}) ({one.minutes})" for one in own
        )
        read = ", ".join(_numbered(lesson) for lesson in taught)
        parts.append(f"| {number} | {about} | {read} ({minutes} min) | {write or 'none'} |\n")
    parts.append(_GOALS)
    for one in lessons():
        needs = ", ".join(_numbered(find_lesson(name)) for name in one.needs) or "nothing"
        own = ", ".join(exercise.name for exercise in exercises_of(one)) or "none"
        goal = PICKS[one.name].skill
        parts.append(f"| {link_to(one, _LEARN)} | {goal} | {needs} | {one.minutes} | {own} |\n")
    parts.append(_tools())
    return "".join(parts)


def _tools() -> str:
    """Which exercises need more than plain Python."""
    written = [one for one in exercises() if not one.is_hunt]
    triton = [one.name for one in written if "@triton.jit" in one.source]
    tensors = [one.name for one in written if "import torch" in one.source]
    names = ", ".join(f"`{name}`" for name in tensors if name not in triton)
    return (
        f"\n**Torch**: {names} compute with tensors, so a student should have met them. **Triton**:"
        f" {' and '.join(f'`{name}`' for name in triton)}. All other exercises are plain Python.\n"
    )


def _numbered(lesson: Lesson) -> str:
    return f"[{lesson.number}]({_LEARN}{page_name(lesson)})"


def misconceptions_page() -> str:
    """docs/teach/misconceptions.md. Plays every lesson, which takes a minute or two."""
    shelf = ModelShelf()
    asked = [lesson_misconceptions(lesson, shelf) for lesson in lessons()]
    found = [exercise_misconceptions(exercise) for exercise in exercises()]
    return "\n".join([_BELIEFS, *asked, _WRONG, *found])


def lesson_misconceptions(lesson: Lesson, shelf: ModelShelf) -> str:
    parts = [f"### {link_to(lesson, _LEARN)}\n"]
    for question in questions_of(lesson, shelf):
        if not question.wrong_answers:
            continue
        parts.append(f"**{question.number}.** {to_markdown(question.asked.question)}\n")
        rows = [f"- {to_markdown(question.right_answer)}: right"]
        rows += [
            f"- *{to_markdown(given)}*: {to_markdown(why)}" for given, why in question.wrong_answers
        ]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def exercise_misconceptions(exercise: Exercise) -> str:
    rows = "".join(
        f"- {to_markdown(one.believes)} *{to_markdown(one.hint)}*\n" for one in exercise.mistakes
    )
    return f"### [{exercise.title}]({exercise_address(exercise, _LEARN)})\n\n{rows}"


_LEARN = "../learn/"
_WEEKS = """
| week | about | lessons | exercises (minutes) |
|---|---|---|---|
"""
_GOALS = """
Give everybody the core exercises of a week, and the others to students who want more: the [list \
of exercises](../learn/index.md#exercises) has them in order. [Grading](grading.md) takes one \
command.

### Goals and prerequisites

After a lesson, a student can do what the second column says. The lesson's questions practise it, \
and the engine checks each answer.

| lesson | the student can | after | minutes | exercises |
|---|---|---|---|---|
"""
_BELIEFS = """\
---
description: Wrong answers that students give, and the sentence that corrects each
search:
  exclude: true
---

# What students believe

Every question of a lesson expects some wrong answers, and has a sentence for each. Every exercise \
knows mistakes, and names a student's when the code behaves like one of \
them. This page lists both. Read the part of your next meeting before it: these are the answers \
that you will hear. [First answers of your class](grading.md#the-first-answers-of-a-class) shows \
how many students gave which.

It contains all answers, so do not hand it out.

## In lessons
"""
_WRONG = """\
## In exercises

What the student believes, and *the hint that the check gives*.
"""
