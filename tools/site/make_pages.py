#!/usr/bin/env python3
"""Writes what pages of the docs show of the code; `make docs-pages` does the same.

    tools/site/make_pages.py                     # all pages, in place: about two minutes
    tools/site/make_pages.py --only use/cli.md   # only this page
    tools/site/make_pages.py --only 3            # only the page of lesson 3

A page is written by hand, but for its regions, each between two comments. Lessons have pictures and
recordings, too: docs/assets/lessons and docs/assets/recordings/lessons.

The pages are committed, and tests/more/docs/test_pages_are_fresh.py compares them with newly made
ones. So a region must not depend on the machine: lessons run on a virtual clock with the house
model, even if another one is cached, and greedy sampling from float32 scores.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from inspect import getsource
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cli_reference
import configuration_reference
import course_tables
import events_reference
from lesson_page import played
from page_text import DOCS

from minivllm.engine.core import EngineCore
from minivllm.errors import MinivllmError
from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.lessons.teacher.script import Lesson
from minivllm.tui.keys.commands import key_tables


def step_of_the_engine() -> str:
    return f"<!-- not run: part of a module -->\n```python\n{getsource(EngineCore)}```"


def regions_of(lesson: Lesson) -> dict[str, Callable[[], str]]:
    regions = {
        "about": partial(course_tables.about, lesson),
        "lesson": lambda: played(lesson).text,
    }
    if any(exercise.lesson == lesson.number for exercise in exercises()):
        regions["exercises"] = partial(course_tables.exercises_of_topic, lesson)
    return regions


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "inside/architecture.md": {"step": step_of_the_engine},
    "use/cli.md": {"commands": cli_reference.commands},
    "use/configuration.md": {
        cls.__name__: partial(configuration_reference.fields_and_refusals, cls)
        for cls in configuration_reference.CLASSES
    },
    "inside/events.md": {
        "meta": events_reference.meta,
        "envelope": events_reference.envelope,
        "kinds": events_reference.kinds,
    },
    "start/dashboard.md": {"keys": key_tables},
    "learn/index.md": {
        "topics": partial(course_tables.topics, "main"),
        "kernels": partial(course_tables.topics, "kernels"),
        "ideas": course_tables.ideas,
        "exercises": course_tables.all_exercises,
        "rules": course_tables.rules,
    },
    **{f"learn/{lesson.name}.md": regions_of(lesson) for lesson in lessons()},
    "teach/index.md": {"course": course_tables.weeks, "goals": course_tables.goals},
    "teach/misconceptions.md": {
        "lessons": course_tables.wrong_answers,
        "exercises": course_tables.mistakes,
    },
}
"""Path of a page below docs/ -> name of a region -> function that makes its text."""


def page(name: str) -> str:
    text = (DOCS / name).read_text(encoding="utf-8")
    for region, make in PAGES[name].items():
        begin, end = f"<!-- made from the code: {region} -->\n", f"<!-- end of {region} -->"
        before, rest = text.split(begin)
        after = rest.split(end)[1]
        text = "".join([before, begin, "\n", make().strip("\n"), "\n\n", end, after])
    return text


def write_files(lesson: Lesson) -> None:
    """Write the pictures and recordings of a lesson in place of its older ones."""
    files = played(lesson).files.items()
    for path in (
        *DOCS.glob(f"assets/lessons/{lesson.number:02}-*.svg"),
        *DOCS.glob(f"assets/recordings/lessons/{lesson.name}-[0-9].jsonl"),
    ):
        path.unlink()
    for name, make in files:
        (DOCS / "assets" / name).write_text(make(), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write what pages show of the code.")
    parser.add_argument("--only", metavar="PAGE", help="a page below docs/, or a lesson's number")
    only = parser.parse_args().only
    try:
        if only is not None and only not in PAGES:
            only = f"learn/{find_lesson(only).name}.md"
        for name in PAGES if only is None else [only]:
            (DOCS / name).write_text(page(name), encoding="utf-8")
        for lesson in lessons():
            if only in (None, f"learn/{lesson.name}.md"):
                write_files(lesson)
    except MinivllmError as error:
        sys.exit(f"minivllm: {error}")


if __name__ == "__main__":
    main()
