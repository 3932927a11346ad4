"""Nothing in the course is used before it is taught."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.course.concepts import EXERCISES, LESSONS, Learned
from minivllm.lessons.course.library import find_lesson, lessons

COURSE_FOLDER = Path(__file__).resolve().parents[2] / "lessons/course"
SEE = re.compile(r"\blessons? \d|\bnext lesson\b")
"""A text that looks ahead says so."""


def used_too_early(taught_by: Mapping[str, Learned], written: Mapping[str, Learned]) -> list[str]:
    """What a lesson needs and no earlier one taught, or an exercise, in its place in the order."""
    taught: set[str] = set()
    after: dict[int, set[str]] = {}
    found = []
    for lesson in lessons():
        entry = taught_by[lesson.name]
        found += [f"{lesson.name}: {need}" for need in entry.needs if need not in taught]
        taught |= set(entry.teaches)
        after[lesson.number] = set(taught)
    practised: set[str] = set()
    for exercise in exercises():
        entry, known = written[exercise.name], after.get(exercise.lesson, set()) | practised
        found += [f"{exercise.name}: {need}" for need in entry.needs if need not in known]
        practised |= set(entry.teaches)
    return found


def test_every_lesson_and_exercise_has_an_entry_in_the_order_of_the_course():
    assert list(LESSONS) == [one.name for one in lessons()]
    assert list(EXERCISES) == [one.name for one in exercises()]
    assert {one.lesson for one in exercises()} <= {one.number for one in lessons()}


def test_nothing_is_needed_before_it_is_taught():
    assert used_too_early(LESSONS, EXERCISES) == []


@pytest.mark.parametrize(
    ("name", "need"), [("batching", "preempted"), ("block-table", "ref_cnt"), ("lru", "samples")]
)
def test_a_need_that_comes_later_is_found(name, need):
    tampered = [
        {**table, name: Learned((), (need,))} if name in table else table
        for table in (LESSONS, EXERCISES)
    ]
    assert f"{name}: {need}" in used_too_early(*tampered)


def test_no_lesson_of_the_main_track_needs_the_kernel_track():
    kernels = {one.name for one in lessons() if one.track == "kernels"}
    terms = {term for name in kernels for term in LESSONS[name].teaches}
    for one in lessons():
        if one.track == "main":
            assert not (set(one.needs) & kernels or set(LESSONS[one.name].needs) & terms)


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_names_what_it_teaches_and_nothing_that_comes_later(name):
    lesson = find_lesson(name)
    stem = lesson.run.__module__.rpartition(".")[2]
    texts = list(texts_of(COURSE_FOLDER / f"{stem}.py"))
    for term in LESSONS[name].teaches:
        assert any(mentions(term, text) for text in texts), term
    later = [one for one in lessons() if one.number > lesson.number]
    for one in later if lesson.track == "main" else []:
        for term in LESSONS[one.name].teaches:
            early = [text for text in texts if mentions(term, text) and not SEE.search(text)]
            assert not early, f"{term!r}, which is taught in {one.name}: {early[0]}"


@pytest.mark.parametrize("exercise", exercises(), ids=lambda one: one.name)
def test_an_exercise_uses_no_term_of_a_later_lesson_that_it_does_not_explain(exercise):
    page = exercise_page(exercise.name)
    texts = [*re.split(r"\n\s*\n|\n(?= *(?:\d\.|-) )", page), *exercise.hints]
    defined = " ".join(re.findall(r"(?<!\*)\*(\w[^*\n]*)\*(?!\*)", page))
    for lesson in lessons():
        for term in LESSONS[lesson.name].teaches if lesson.number > exercise.lesson else ():
            early = [one for one in texts if mentions(term, one) and not SEE.search(one)]
            later = f"{term!r}, which is taught in {lesson.name}"
            assert mentions(term, defined) or not early, f"{later}: {early[0]}"


def test_the_exit_ticket_of_the_lab_asks_only_what_the_lab_teaches():
    page = (COURSE_FOLDER.parents[1] / "docs/teach/lab-3h.md").read_text(encoding="utf-8")
    plan, ticket = page.split("## Exit ticket")
    taken = {find_lesson(name).name for name in re.findall(r"^minivllm lesson (\S+)", plan, re.M)}
    questions = re.findall(r"^ *\d\. .*", ticket, re.M)
    assert len(taken) >= 5 and len(questions) == 10, "five questions and their answers"
    # The projector shows the terms of the first two lessons.
    for lesson in lessons()[2:]:
        for term in LESSONS[lesson.name].teaches if lesson.name not in taken else ():
            assert not any(mentions(term, text) for text in questions), term


def test_the_lab_takes_each_lesson_after_those_that_it_needs():
    page = (COURSE_FOLDER.parents[1] / "docs/teach/lab-3h.md").read_text(encoding="utf-8")
    done = {"tokens"}  # the lecturer says the words of this lesson
    assert "(../learn/tokens.md)" in page
    for name in re.findall(r"^minivllm lesson (\w\S*)", page, re.M):
        lesson = find_lesson(name)
        assert set(lesson.needs) <= done, name
        done.add(lesson.name)


def exercise_page(name: str) -> str:
    """The statement of an exercise, as its author wrote it."""
    folder = COURSE_FOLDER.parent / "exercises" / name.replace("-", "_")
    return (folder / "README.md").read_text(encoding="utf-8")


def mentions(term: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(term)}s?(?!\w)", text, re.IGNORECASE) is not None


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a lesson: strings of several words, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield "".join(part.value for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
