"""`minivllm lesson`: the list, a lesson in a pipe, its transcript, and what is asked for in vain."""

import pytest
from one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.cli import main
from minivllm.lessons.library import lessons

TINY = ["--model", "tiny-random"]


@pytest.fixture(autouse=True)
def progress(tmp_path, monkeypatch):
    path = tmp_path / "home" / "progress.json"
    monkeypatch.setenv("MINIVLLM_PROGRESS", str(path))
    return path


def test_without_a_number_the_course_is_listed(capsys):
    assert main(["lesson"]) == 0
    printed = capsys.readouterr().out
    assert all(lesson.title in printed for lesson in lessons())
    assert len({line.index(" min  ") for line in printed.splitlines() if " min  " in line}) == 1, "minutes are a column"


def test_the_list_says_what_was_done(capsys, progress, monkeypatch):
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115 - as long as the test
    assert main(["lesson", "1", "--plain", *TINY]) == 0
    assert progress.is_file()
    capsys.readouterr()
    assert main(["lesson"]) == 0
    assert "done" in capsys.readouterr().out.splitlines()[0]


def test_auto_prints_a_lesson_and_keeps_no_answers(capsys, progress):
    assert main(["lesson", "naive-serving", "--plain", "--auto", *TINY]) == 0
    assert "This is the end of" in capsys.readouterr().out
    assert not progress.exists()


def test_a_transcript_is_a_page_of_markdown(tmp_path):
    file = tmp_path / "lesson.md"
    assert main(["lesson", "4", "--transcript", str(file), *TINY]) == 0
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# 4. ")
    assert "```text\nKV cache" in text


def test_from_begins_at_a_page(capsys):
    assert main(["lesson", "4", "--auto", "--from", "5", *TINY]) == 0
    printed = capsys.readouterr().out
    assert "Paging cuts the KV cache" not in printed
    assert "bob" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["99"], "There is no lesson '99'"),
        (["1", "--auto", "--from", "0"], "--from must be"),
        (["1", "--auto", "--from", "500"], "--from must be"),
        (["1", "--transcript", "no/such/folder/x.md"], "no/such/folder"),
    ],
)
def test_what_cannot_be_is_one_sentence(capsys, arguments, words):
    assert main(["lesson", *arguments, *TINY]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_damaged_progress_file_is_told_before_the_lesson(capsys, progress):
    progress.parent.mkdir()
    progress.write_text("{")
    assert main(["lesson", "1", "--plain", *TINY]) == 1
    captured = capsys.readouterr()
    assert "damaged" in captured.err
    assert captured.out == ""
