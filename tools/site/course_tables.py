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
    "Mixtures of experts (optional)": "experts",
}
"""What a week of the course is about -> its last lesson."""


def about(lesson: Lesson) -> str:
    track = "This lesson is part of the kernel track. " if lesson.track == "kernels" else ""
    needs = ", ".join(_link(find_lesson(name)) for name in lesson.needs)
    return f"{track}About {lesson.minutes} minutes.{f' Read first: {needs}.' if needs else ''}"


def exercises_of_topic(lesson: Lesson) -> str:
    how = "You write parts of the engine, and it runs with your code: [how it goes]"
    own = [exercise_section(known) for known in exercises() if known.lesson == lesson.number]
    return "\n".join([f"## Exercises\n\n{how}(index.md#exercises).\n", *own])


def topics(track: Track) -> str:
    rows = (
        (_link(lesson), lesson.minutes, front_matter(lesson)["teaches"], _needs(lesson))
        for lesson in lessons()
        if (lesson.track == "main") == (track == "main")
    )
    return table(("topic", "minutes", "what you learn", "after"), rows)


def ideas() -> str:
    rows = []
    for concept in COURSE:
        views = [VIEWS[panel] for panel in concept.panels]
        shown = ", ".join(f"{view.name} (key {1 + SCREENS.index(view.screen)})" for view in views)
        rows.append((concept.name, _number(concept.lesson), shown))
    return table(("idea", "topic", "in the dashboard"), rows)


def all_exercises() -> str:
    rows = []
    for exercise in [work for part in by_part().values() for work in part]:
        what = "the first wrong step of a recording"
        if not exercise.finds_bug:
            written = ", ".join(f"`{symbol}`" for symbol in exercise.symbol.split(", "))
            what = f"{written} in `{engine_file(exercise)}`"
        title = f"[{exercise.title}]({exercise_address(exercise)})"
        rows.append((title, _number(str(exercise.lesson)), exercise.level, exercise.minutes, what))
    return table(("exercise", "topic", "level", "minutes", "what you write"), rows)


def rules() -> str:
    rows = ((f"`{name}`", rule["says"]) for name, rule in RULES.items())
    return table(("rule", "what it says"), rows)


def weeks() -> str:
    rows, first = [], 0
    for about_it, name in WEEKS.items():
        last = find_lesson(name).number
        taught = [lesson for lesson in lessons() if first <= lesson.number <= last]
        read = ", ".join(_number(lesson.name) for lesson in taught)
        minutes = sum(lesson.minutes for lesson in taught)
        write = ", ".join(
            f"[{exercise.name}]({exercise_address(exercise)}) ({exercise.minutes})"
            for exercise in sorted(exercises(), key=lambda exercise: exercise.lesson)
            if first <= exercise.lesson <= last
        )
        rows.append((len(rows) + 1, about_it, f"{read} ({minutes} min)", write or "none"))
        first = last + 1
    return table(("week", "about", "lessons", "exercises (minutes)"), rows)


def goals() -> str:
    rows = []
    for topic in lessons():
        own = ", ".join(work.name for work in exercises() if work.lesson == topic.number) or "none"
        rows.append((_link(topic), front_matter(topic)["skill"], _needs(topic), topic.minutes, own))
    return table(("lesson", "the student can", "after", "minutes", "exercises"), rows)


def wrong_answers() -> str:
    text = ""
    for lesson in lessons():
        text += f"### {_link(lesson)}\n\n"
        for question in played(lesson).questions:
            if question.wrong_answers:
                text += f"**{question.number}.** {escaped(question.asked.question)}\n\n"
                text += f"- {escaped(question.right_answer)}: right\n"
                for given, why in question.wrong_answers:
                    text += f"- *{escaped(given)}*: {escaped(why)}\n"
                text += "\n"
    return text


def mistakes() -> str:
    text = ""
    for exercise in exercises():
        text += f"### [{exercise.title}]({exercise_address(exercise)})\n\n"
        for mistake in exercise.mistakes:
            text += f"- {escaped(mistake.believes)} *{escaped(mistake.hint)}*\n"
        text += "\n"
    return text


def _link(lesson: Lesson) -> str:
    return f"[{lesson.number}. {lesson.title}](../learn/{lesson.name}.md)"


def _number(lesson: str) -> str:
    return f"[{find_lesson(lesson).number}](../learn/{find_lesson(lesson).name}.md)"


def _needs(lesson: Lesson) -> str:
    return ", ".join(map(_number, lesson.needs)) or "nothing"
