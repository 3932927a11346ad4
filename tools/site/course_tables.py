"""The tables of learn/index.md, of teach/index.md, and what teach/misconceptions.md lists.

What a topic teaches, and what a student can do afterwards, is in the front matter of its page.
"""

from exercise_section import engine_file, exercise_address, exercise_section
from lesson_page import front_matter, played
from page_text import escaped, table

from minivllm.lessons.checker.bugs.judge import RULES
from minivllm.lessons.checker.catalogue import by_part, exercises
from minivllm.lessons.course.course import COURSE, SCREENS, VIEWS
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.lessons.teacher.script import Lesson, Track

WEEKS = {
    "Tokens, the KV cache, and what reserving memory costs": "naive-serving",
    "Blocks, and batches that change in every step": "batching",
    "One pass for many lengths, and one token budget for each step": "token-budget",
    "Prefix sharing, and copies when sharers write": "copy-on-write",
    "Too little memory, and serving": "serving",
    "Fewer bytes, more tokens for each step, grammar, and vLLM's source": "way-to-vllm",
    "Attention as a GPU kernel (optional; needs no GPU)": "kernel-ladder",
}
"""What a week of the course is about -> its last lesson."""


def about(lesson: Lesson) -> str:
    track = "This lesson is part of the kernel track. " if lesson.track == "kernels" else ""
    needs = ", ".join(_link(find_lesson(name)) for name in lesson.needs)
    return f"{track}About {lesson.minutes} minutes.{f' Read first: {needs}.' if needs else ''}"


def exercises_of_topic(lesson: Lesson) -> str:
    how = "You write parts of the engine, and it runs with your code: [how it goes]"
    own = [exercise_section(one) for one in exercises() if one.lesson == lesson.number]
    return "\n".join([f"## Exercises\n\n{how}(index.md#exercises).\n", *own])


def topics(track: Track) -> str:
    rows = (
        (_link(one), one.minutes, front_matter(one)["teaches"], _needs(one))
        for one in lessons()
        if one.track == track
    )
    return table(("topic", "minutes", "what you learn", "after"), rows)


def ideas() -> str:
    rows = []
    for one in COURSE:
        views = [VIEWS[panel] for panel in one.panels]
        shown = ", ".join(f"{view.name} (key {1 + SCREENS.index(view.screen)})" for view in views)
        rows.append((one.name, _number(one.lesson), shown))
    return table(("idea", "topic", "in the dashboard"), rows)


def all_exercises() -> str:
    rows = []
    for one in [each for part in by_part().values() for each in part]:
        what = "the first wrong step of a recording"
        if not one.is_hunt:
            written = ", ".join(f"`{symbol}`" for symbol in one.symbol.split(", "))
            what = f"{written} in `{engine_file(one)}`"
        title = f"[{one.title}]({exercise_address(one)})"
        rows.append((title, _number(str(one.lesson)), one.level, one.minutes, what))
    return table(("exercise", "topic", "level", "minutes", "what you write"), rows)


def rules() -> str:
    return table(("rule", "what it says"), ((f"`{name}`", one.says) for name, one in RULES.items()))


def weeks() -> str:
    rows, first = [], 0
    for about_it, name in WEEKS.items():
        last = find_lesson(name).number
        taught = [one for one in lessons() if first <= one.number <= last]
        read = ", ".join(_number(one.name) for one in taught)
        minutes = sum(one.minutes for one in taught)
        write = ", ".join(
            f"[{one.name}]({exercise_address(one)}) ({one.minutes})"
            for one in sorted(exercises(), key=lambda one: one.lesson)
            if first <= one.lesson <= last
        )
        rows.append((len(rows) + 1, about_it, f"{read} ({minutes} min)", write or "none"))
        first = last + 1
    return table(("week", "about", "lessons", "exercises (minutes)"), rows)


def goals() -> str:
    rows = []
    for one in lessons():
        own = ", ".join(each.name for each in exercises() if each.lesson == one.number) or "none"
        rows.append((_link(one), front_matter(one)["skill"], _needs(one), one.minutes, own))
    return table(("lesson", "the student can", "after", "minutes", "exercises"), rows)


def wrong_answers() -> str:
    text = ""
    for lesson in lessons():
        text += f"### {_link(lesson)}\n\n"
        for one in played(lesson).questions:
            if one.wrong_answers:
                text += f"**{one.number}.** {escaped(one.asked.question)}\n\n"
                text += f"- {escaped(one.right_answer)}: right\n"
                for given, why in one.wrong_answers:
                    text += f"- *{escaped(given)}*: {escaped(why)}\n"
                text += "\n"
    return text


def mistakes() -> str:
    text = ""
    for exercise in exercises():
        text += f"### [{exercise.title}]({exercise_address(exercise)})\n\n"
        for one in exercise.mistakes:
            text += f"- {escaped(one.believes)} *{escaped(one.hint)}*\n"
        text += "\n"
    return text


def _link(lesson: Lesson) -> str:
    return f"[{lesson.number}. {lesson.title}](../learn/{lesson.name}.md)"


def _number(lesson: str) -> str:
    return f"[{find_lesson(lesson).number}](../learn/{find_lesson(lesson).name}.md)"


def _needs(lesson: Lesson) -> str:
    return ", ".join(map(_number, lesson.needs)) or "nothing"
