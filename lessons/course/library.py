"""The course: all lessons in order, found by number or name.

A lesson is a module `l<number>_<anything>.py` of this folder with a `run` made by `@lesson`. Both
numbers must agree. Importing a lesson builds no engine and loads no torch, so a list is quick.
"""

import pkgutil
import re
from functools import cache
from importlib import import_module

import minivllm.lessons.course
from minivllm.errors import LessonError
from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.teacher.script import Lesson

TRACKS = {
    "kernels": "The kernel track, for those who want it: how attention runs on a GPU.",
    "more": "More, in any order: large models and large caches.",
}

_MODULE = re.compile(r"l(\d\d)_\w+")


@cache
def lessons() -> tuple[Lesson, ...]:
    found = []
    for module in pkgutil.iter_modules(minivllm.lessons.course.__path__):
        if match := _MODULE.fullmatch(module.name):
            lesson = import_module(f"minivllm.lessons.course.{module.name}").run
            if lesson.number != int(match[1]):
                raise LessonError(
                    f"{module.name}.py has lesson {lesson.number}: change one of the two numbers."
                )
            found.append(lesson)
    return tuple(sorted(found, key=lambda lesson: lesson.number))


def what_comes_next(lesson: Lesson) -> str:
    course = lessons()
    if lesson not in course:
        return ""
    at = course.index(lesson)
    following = course[at + 1 : at + 2]
    parts = [f"Next: `minivllm lesson {later.number}`, {later.title}." for later in following]
    if not following:
        parts = ["You have finished the course."]
    elif lesson.track == "main" != following[0].track:
        parts = [f"You have finished the main track. {TRACKS[following[0].track]} {parts[0]}"]
    own = [known for known in exercises() if known.lesson == lesson.number and not known.obstacle]
    parts += [
        f"Or write part of it yourself: `minivllm exercise start {work.name}`." for work in own[:1]
    ]
    return " ".join(parts)


def find_lesson(wanted: str) -> Lesson:
    """Return the lesson with this number or name. Raises `LessonError`, which lists all lessons."""
    for lesson in lessons():
        if wanted.strip().casefold() in (str(lesson.number), lesson.name):
            return lesson
    known = ", ".join(f"{lesson.number} ({lesson.name})" for lesson in lessons())
    raise LessonError(f"There is no lesson {wanted!r}. The lessons are {known}.")
