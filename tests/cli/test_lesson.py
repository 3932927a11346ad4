"""`minivllm lesson`: the list, a lesson in a pipe, its transcript, and refused options."""

import io
import re
import sys

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.cli import main
from minivllm.lessons.course.library import lessons


@pytest.fixture(autouse=True)
def progress(tmp_path, monkeypatch):
    path = tmp_path / "home" / "progress.json"
    monkeypatch.setenv("MINIVLLM_PROGRESS", str(path))
    return path


def test_without_a_number_the_course_is_listed(capsys):
    assert main(["lesson"]) == 0
    printed = capsys.readouterr().out
    assert all(lesson.title in printed for lesson in lessons())


def test_in_a_terminal_the_command_goes_on_where_the_user_left_off(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for beginning, left in (("0. What serving is", "\nq\n"), ("Lesson 0: continue at", "\nq\n")):
        monkeypatch.setattr(sys, "stdin", Keyboard(left))
        assert main(["lesson", "--plain"]) == 0
        assert beginning in capsys.readouterr().out
    assert main(["lesson", "list"]) == 0
    assert "To continue: minivllm lesson 0." in capsys.readouterr().out


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
    assert re.search(r"^✓ +1 .* done$", listed, re.MULTILINE)
    assert "To continue: minivllm lesson 2." in listed
    assert main(["lesson", "--ascii"]) == 0
    assert capsys.readouterr().out.isascii()


class Keyboard(io.StringIO):
    """Typed input from a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def give(monkeypatch, capsys):
    """Run lesson 4 in a terminal with these typed lines; return the output."""

    def give(typed: str, *options: str) -> str:
        monkeypatch.setattr(sys, "stdin", Keyboard(typed))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert main(["lesson", "4", "--plain", *options]) == 0
        return capsys.readouterr().out

    return give


def test_an_interrupted_lesson_continues_with_its_answers(give, capsys):
    assert "continue at page" not in give("\n1\n\nq\n"), "nothing was left yet"
    assert main(["lesson", "list"]) == 0
    assert "To continue: minivllm lesson 4." in capsys.readouterr().out
    again = give("what?\n\nb\nb\n2\nq\n")
    # Any other answer is asked again.
    assert again.count("continue at page 4 (enter), or start over (s)?") == 2
    assert "Paging cuts" not in again
    assert "You said 1 block" in again, "the page before, with the answer of the first time"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("99", "There is no lesson '99'"),
        ("1 --auto --from 0", "--from must be"),
        ("1 --auto --from 500", "--from must be"),
        ("1 --transcript no/such/folder/x.md", "no/such/folder"),
    ],
)
def test_a_bad_argument_gives_one_sentence(capsys, arguments, words):
    assert main(["lesson", *arguments.split()]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
