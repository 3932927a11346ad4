"""First answers of a class: a student's file, and the histogram over a folder of files."""

import json
from pathlib import Path

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.cli import main
from minivllm.lessons.teacher.progress import Progress


@pytest.fixture(autouse=True)
def progress(tmp_path, monkeypatch) -> Progress:
    path = tmp_path / "home" / "progress.json"
    monkeypatch.setenv("MINIVLLM_PROGRESS", str(path))
    return Progress(path)


def hand_in(folder: Path, student: str, **answers: tuple[str, bool]) -> None:
    """Write the answers of one student to questions of lesson 4, as `q1=("2", True)`."""
    given = {name[1:]: {"given": text, "right": right} for name, (text, right) in answers.items()}
    file = {"schema": "minivllm.answers/1", "lessons": {"block-tables": given}}
    folder.mkdir(exist_ok=True)
    (folder / f"{student}.json").write_text(json.dumps(file))


def test_a_students_file_has_first_answers_and_nothing_else(progress, tmp_path, capsys):
    progress.note_answer("block-tables", "1", "6", False)
    progress.note_answer("block-tables", "1", "2", True)
    progress.note_check("block-pool", True)
    assert main(["lesson", "--save-answers", str(tmp_path / "ada.json")]) == 0
    assert "1 first answers" in capsys.readouterr().out
    assert json.loads((tmp_path / "ada.json").read_text()) == {
        "schema": "minivllm.answers/1",
        "lessons": {"block-tables": {"1": {"given": "6", "right": False}}},
    }


def test_a_class_is_counted_and_each_misconception_is_explained(tmp_path, capsys):
    folder = tmp_path / "class"
    for student, blocks in enumerate(["2", "2", "2", "6", "1", "1"]):
        hand_in(folder, f"s{student}", q1=(blocks, blocks == "2"))
    hand_in(folder / "from-moodle", "s9", q1=("2", True), q2=("3", False))
    assert main(["lesson", "block-tables", "--class-answers", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "Blocks and block tables: 7 of 7 students" in shown
    rows = [line.split() for line in shown.splitlines() if "█" in line]
    assert [(row[-3], row[-1]) for row in rows[:3]] == [("2", "4"), ("1", "2"), ("6", "1")]
    assert "✓ 2" in shown and "One block holds only 4 tokens." in shown
    # Nobody was right: the answer is shown, with no student. A question without answers is not.
    assert "✓ somewhere else" in shown and "\n3. " not in shown


def test_a_broken_file_is_named_and_skipped_and_the_others_count(tmp_path, capsys):
    folder = tmp_path / "class"
    hand_in(folder, "good", q1=("\x1b[31m2", False))
    broken = {
        "cut": b'{"schema": "minivllm.ans',
        "other": b'{"schema": "x", "lessons": {}}',
        "text": b"\xff\xfe",
        "nested": b"[" * 100_000,
        "large": b" " * 1_000_001,
    }
    for name, content in broken.items():
        (folder / f"{name}.json").write_bytes(content)
    assert main(["lesson", "4", "--class-answers", str(folder)]) == 0
    said = capsys.readouterr()
    skipped = [line for line in said.err.splitlines() if "skipped" in line]
    assert [line.split()[2] for line in skipped] == [f"{name}.json:" for name in sorted(broken)]
    assert "1 of 1 students" in said.out and "\x1b" not in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--class-answers nowhere", "nowhere is not a folder"),
        ("--class-answers empty", "empty has no answers"),
        ("--save-answers x.json", "There are no answers yet"),
        ("4 --save-answers x.json", "leave out LESSON"),
    ],
)
def test_a_wrong_command_gives_one_sentence(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main(["lesson", *arguments.split()]) == 1
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not (tmp_path / "x.json").exists()
