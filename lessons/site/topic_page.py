"""The page of a topic: its lesson, the summary of its ideas, its exercises, and its source.

A summary belongs to one topic, although several lessons can be about it: the pages of the others
link to it. The file's name is the lesson's name without its number, so that a new lesson in the
middle of the course moves no page.
"""

import re
from pathlib import Path
from typing import NamedTuple

from minivllm.lessons.checker.catalogue import Exercise, exercises
from minivllm.lessons.course.library import find_lesson
from minivllm.lessons.site.exercise_section import anchor, exercise_section
from minivllm.lessons.site.lesson_page import Draw, played_lesson
from minivllm.lessons.site.picks import PICKS, SUMMARIES
from minivllm.lessons.site.pictures import draw
from minivllm.lessons.teacher.prompts import LESSON_MODEL
from minivllm.lessons.teacher.script import Lesson

TEXTS = Path(__file__).resolve().parents[2] / "docs/summaries"
_HEADING = re.compile(r"#+ ")


class TopicPage(NamedTuple):
    name: str
    text: str
    pictures: dict[str, str]
    recordings: dict[str, str]


def page_name(lesson: Lesson) -> str:
    return f"{lesson.name}.md"


def link_to(lesson: Lesson, folder: str = "") -> str:
    return f"[{lesson.number}. {lesson.title}]({folder}{page_name(lesson)})"


def exercise_address(exercise: Exercise, folder: str = "") -> str:
    """Where the statement of an exercise is: a section of its topic's page."""
    return f"{folder}{page_name(find_lesson(str(exercise.lesson)))}#{anchor(exercise)}"


def exercises_of(lesson: Lesson) -> list[Exercise]:
    return [one for one in exercises() if one.lesson == lesson.number]


def topic_page(lesson: Lesson, *, draw: Draw = draw) -> TopicPage:
    """Play the lesson and write the page of its topic."""
    played = played_lesson(lesson, draw=draw)
    parts = [_top(lesson), played.text, _summary(lesson), _exercises(lesson), _bottom(lesson)]
    text = "\n".join(filter(None, parts))
    return TopicPage(page_name(lesson), text, played.pictures, played.recordings)


def _has_summary(lesson: Lesson) -> bool:
    return SUMMARIES[PICKS[lesson.name].summary] == lesson.name


def _top(lesson: Lesson) -> str:
    needs = ", ".join(link_to(find_lesson(name)) for name in lesson.needs)
    track = "This lesson is part of the kernel track. " if lesson.track == "kernels" else ""
    places = ["the lesson"]
    if _has_summary(lesson):
        places.append("[its ideas in short](#in-short)")
    if exercises_of(lesson):
        places.append("[exercises](#exercises)")
    places.append("[the source](#in-the-source)")
    return f"""\
---
description: "Lesson {lesson.number} of minivllm: {lesson.title}"
---

# {lesson.number}. {lesson.title}

{track}About {lesson.minutes} minutes.{f" Read first: {needs}." if needs else ""} On this page: \
{", ".join(places[:-1])} and {places[-1]}.

The lesson was written down by running it on the engine. Guess before you open an answer.
To answer the questions yourself and explore every picture, run it:

<!-- not run: opens the dashboard and waits for guesses; \
tests/lessons/test_lessons.py plays every lesson -->
```sh
minivllm lesson {lesson.number}
```

The model is `{LESSON_MODEL}`, a very small one that comes with minivllm and tells short stories.
The engine handles its memory like that of any other model.
"""


def _summary(lesson: Lesson) -> str:
    if not _has_summary(lesson):
        return ""
    text = (TEXTS / f"{PICKS[lesson.name].summary}.md").read_text(encoding="utf-8")
    title, _, body = text.partition("\n")
    title = title.removeprefix("# ")
    return f"## In short: {title[:1].lower()}{title[1:]} {{ #in-short }}\n{_demoted(body)}"


def _demoted(text: str) -> str:
    """Put every heading one level lower, but no comment of a code block."""
    lines, in_code = [], False
    for line in text.splitlines():
        in_code ^= line.startswith("```")
        lines.append(f"#{line}" if not in_code and _HEADING.match(line) else line)
    return "\n".join(lines) + "\n"


def _exercises(lesson: Lesson) -> str:
    own = exercises_of(lesson)
    if not own:
        return ""
    return "\n".join(
        [
            "## Exercises\n",
            "You write parts of the engine, and it runs with your code:"
            " [how it goes](index.md#exercises).\n",
            *map(exercise_section, own),
        ]
    )


def _bottom(lesson: Lesson) -> str:
    picks = PICKS[lesson.name]
    source = f"lessons/course/{lesson.run.__module__.rpartition('.')[2]}.py"
    home = find_lesson(SUMMARIES[picks.summary])
    short = "" if _has_summary(lesson) else f"- [The ideas in short]({page_name(home)}#in-short)\n"
    return f"""\
## In the source

{_sources(picks.sources)}
- [`{source}`](../../{source}): this lesson

## Read on

{short}- [All topics](index.md)
- [Glossary](glossary.md), [reading list](reading-list.md)
"""


def _sources(sources: tuple[tuple[str, str], ...]) -> str:
    def shown(path: str) -> str:
        file, _, name = path.partition("#")
        return name or file

    return "\n".join(f"- [`{shown(path)}`](../../{path}): {what}" for path, what in sources)
