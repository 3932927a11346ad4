"""`minivllm lesson`: the list, a lesson in a pipe, refused options, and a class's answers."""

import io
import json
import re
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.cli import main
from minivllm.cli.course import lesson
from minivllm.lessons.course.library import TRACKS, lessons
from minivllm.lessons.teacher.progress import Progress


@pytest.fixture(autouse=True)
def progress(tmp_path, monkeypatch):
    path = tmp_path / "home" / "progress.json"
    monkeypatch.setenv("MINIVLLM_PROGRESS", str(path))
    return path


def test_the_list_shows_completed_lessons_but_not_printed_ones(capsys, progress, monkeypatch):
    assert main(["lesson", "naive-serving", "--plain", "--auto"]) == 0
    assert "This is the end of" in capsys.readouterr().out
    assert not progress.exists()
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115 - as long as the test
    assert main(["lesson", "1", "--plain"]) == 0
    assert progress.is_file()
    capsys.readouterr()
    assert main(["lesson"]) == 0
    listed = capsys.readouterr().out
    assert all(lesson.title in listed for lesson in lessons())
    assert re.search(r"^✓ +1 .* \(done\)$", listed, re.MULTILINE)
    assert "To continue: minivllm lesson 2\n" in listed
    assert main(["lesson", "--ascii"]) == 0
    assert capsys.readouterr().out.isascii()


@pytest.fixture
def give(monkeypatch, capsys):
    """Run lesson 4 in a terminal with these typed lines; return the output."""

    def give(typed: str, *options: str) -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        for stream in (sys.stdin, sys.stdout):
            monkeypatch.setattr(stream, "isatty", lambda: True)
        assert main(["lesson", "4", "--plain", *options]) == 0
        return capsys.readouterr().out

    return give


def test_an_interrupted_lesson_continues_with_its_answers(give, capsys):
    assert "Paging cuts" in give("\n1\n\nq\n"), "nothing was left yet"
    assert main(["lesson", "list"]) == 0
    listed = capsys.readouterr().out
    assert "To continue: minivllm lesson 4\n" in listed
    assert [listed.count(heading) for heading in TRACKS.values()] == [1, 1]
    again = give("b\nb\n2\nq\n")
    assert "Paging cuts" not in again
    assert "You said 1 block" in again, "the page before, with the answer of the first time"
    assert "Paging cuts" in give("q\n", "--from", "1")


def test_leaving_the_dashboard_says_the_place_and_how_to_go_on(progress, monkeypatch, capsys):
    monkeypatch.setattr(lesson, "terminal_attached", lambda: True)
    monkeypatch.setattr(lesson, "Starting", lambda build: Mock(result=None))
    for page, last, said in ((5, False, "at page 5. To go on: minivllm lesson 4"),
                             (17, True, "done. To go on: minivllm lesson 5")):  # fmt: skip
        Progress(progress).note_page("block-tables", page, last)
        assert main(["lesson", "4"]) == 0
        assert capsys.readouterr().err.splitlines()[-1] == f"Lesson 4: {said}"
    Progress(progress).note_page("batching", 2, False)
    ends = iter((lesson.NEXT, None))  # enter at the end of lesson 4, then q in the next one
    monkeypatch.setattr(lesson, "Starting", lambda build: Mock(result=next(ends)))
    assert main(["lesson", "4"]) == 0 and "Lesson 5: at page 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("1 --auto --from 500", "--from must be"),
        ("1 --transcript no/such/folder/x.md", "no/such/folder"),
        ("--class-answers nowhere", "nowhere is not a folder"),
        ("--class-answers empty", "empty has no answers"),
        ("--save-answers x.json", "There are no answers yet"),
    ],
)
def test_a_bad_argument_gives_one_sentence(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main(["lesson", *arguments.split()]) == 1
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


# ---- the first answers of a class ----


def hand_in(folder: Path, student: str, **answers: tuple[str, bool]) -> None:
    """Write the answers of one student to questions of lesson 4, as `q1=("2", True)`."""
    given = {name[1:]: {"given": text, "right": right} for name, (text, right) in answers.items()}
    file = {"schema": "minivllm.answers/1", "lessons": {"block-tables": given}}
    folder.mkdir(exist_ok=True)
    (folder / f"{student}.json").write_text(json.dumps(file))


def test_a_students_file_has_first_answers_and_nothing_else(progress, tmp_path, capsys):
    noted = Progress(progress)
    noted.note_answer("block-tables", "1", "6", False)
    noted.note_answer("block-tables", "1", "2", True)
    noted.note_check("block-pool", True)
    assert main(["lesson", "--save-answers", str(tmp_path / "ada.json")]) == 0
    assert json.loads((tmp_path / "ada.json").read_text()) == {
        "schema": "minivllm.answers/1",
        "lessons": {"block-tables": {"1": {"given": "6", "right": False}}},
    }


def test_a_class_is_counted_and_broken_files_are_named_and_skipped(tmp_path, capsys):
    folder = tmp_path / "class"
    for student, blocks in enumerate(["2", "2", "\x1b[31m2", "6", "1", "1"]):
        hand_in(folder, f"s{student}", q1=(blocks, blocks == "2"))
    hand_in(folder / "from-moodle", "s9", q1=("2", True), q2=("3", False))
    broken = {"cut": b'{"schema": "minivllm.ans', "other": b'{"schema": "x", "lessons": {}}'}
    broken |= {"text": b"\xff\xfe", "nested": b"[" * 100_000, "large": b" " * 1_000_001}
    for name, content in broken.items():
        (folder / f"{name}.json").write_bytes(content)
    assert main(["lesson", "block-tables", "--class-answers", str(folder)]) == 0
    said = capsys.readouterr()
    skipped = [line for line in said.err.splitlines() if "skipped" in line]
    assert [line.split()[2] for line in skipped] == [f"{name}.json:" for name in sorted(broken)]
    assert "Blocks and block tables: 7 of 7 students" in said.out and "\x1b" not in said.out
    rows = [line.split() for line in said.out.splitlines() if "█" in line]
    assert [(row[-3], row[-1]) for row in rows[:2]] == [("2", "3"), ("1", "2")]
    assert "✓ 2" in said.out and "One block holds only 4 tokens." in said.out
    # Nobody was right: the answer is shown, with no student. A question without answers is not.
    assert "✓ somewhere else" in said.out and "\n3. " not in said.out
