"""Grading a class: every student has a result, in every format."""

import csv
import json
import re
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.lessons.checker import grade as grading
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.grade import seed_for
from minivllm.lessons.checker.holes import stub

EXERCISE = find_exercise("block-pool")
SOURCE = EXERCISE.source
GRADE = ("exercise", "grade", "block-pool", "--submissions")
WRONG = (
    "\n\ndef release(self, block):\n    block.ref_cnt = 0\n   "
    " self._put_back(block)\nBlockPool.release = release\n"
)


def hand_in(folder: Path, files: dict[str, str]) -> None:
    for student, text in files.items():
        (folder / student).mkdir(parents=True)
        if text:
            (folder / student / "block_pool.py").write_text(text)


@pytest.fixture
def submissions(tmp_path: Path) -> Path:
    folder, broken = tmp_path / "submissions", {"dan": "def broken(", "eve": ""}
    hand_in(folder, {"ada": SOURCE, "ben": SOURCE + WRONG, "=cmd": stub(EXERCISE), **broken})
    return folder


def test_a_class_is_graded_in_all_formats_and_bad_files_are_errors(submissions, tmp_path, capsys):
    out = tmp_path / "out"  # created by the command
    options = ["--csv", str(out / "grades.csv"), "--json", str(out / "json"), "--secret", "s"]
    assert main([*GRADE, str(submissions), *options]) == 1
    assert "1 of 5 passed" in capsys.readouterr().err
    rows = {row["student"]: row for row in csv.DictReader((out / "grades.csv").open())}
    assert {name: row["status"] for name, row in rows.items()} == {
        "ada": "pass", "ben": "fail", "'=cmd": "fail", "dan": "error", "eve": "error",
    }  # fmt: skip
    assert rows["ada"]["score"] == rows["ada"]["max_score"] == "7"
    assert rows["'=cmd"]["score"] == rows["dan"]["score"] == rows["eve"]["score"] == "0"

    results = {path.stem: json.loads(path.read_text()) for path in (out / "json").iterdir()}
    ben = results["ben"]
    assert 0 < ben["score"] < 6
    assert ben["score"] == sum(test["score"] for test in ben["tests"])
    assert ben["max_score"] == sum(test["max_score"] for test in ben["tests"]) == 7
    assert ben["extra_data"]["exercises"]["block-pool"]["status"] == "fail"
    *behaviours, seen = ben["tests"]
    assert all("Hint: " in test["output"] for test in behaviours if test["status"] == "failed")
    assert seen["name"].endswith("visible_test.py") and seen["status"] == "failed"
    assert "line " in seen["output"]


NAMES_ITSELF_PASSED = """
import os
for number in range(3, 16):
    try:
        os.write(number, b'{"lines": [], "failure": null}\\n' * 20)
    except OSError:
        pass
from minivllm.lessons.checker import check
check.Result.passed = property(lambda self: True)
"""


def test_grading_goes_on_after_every_kind_of_bad_file_and_loses_none(tmp_path):
    files = {
        "a-exits": f"{SOURCE}\nraise SystemExit(0)",
        "b-prints": f"{SOURCE}\nwhile True: print('x' * 1000)",
        "c-forks": f"{SOURCE}\nimport os\nfor _ in range(4): os.fork()",
        "d-names-itself-passed": f"{stub(EXERCISE)}\n{NAMES_ITSELF_PASSED}",
        "e-is-right": SOURCE,
        "f-removes-itself": SOURCE + "\nimport os\nos.remove(__file__)",
    }
    folder, grades = tmp_path / "class", tmp_path / "grades"
    hand_in(folder, files)
    assert main([*GRADE, str(folder), "--json", str(grades)]) == 1
    scores = {path.stem: json.loads(path.read_text())["score"] for path in grades.iterdir()}
    assert scores == {name: 7 if name[0] in "cef" else 0 for name in files}
    for student, text in files.items():
        assert (folder / student / EXERCISE.student_file).read_text() == text


def test_one_students_folder_gives_one_file_and_an_empty_folder_none(submissions, tmp_path, capsys):
    path = tmp_path / "results.json"
    assert main([*GRADE, str(submissions / "ada"), "--json", str(path)]) == 0
    assert json.loads(path.read_text())["score"] == 7, "as Gradescope wants it"
    (tmp_path / "empty").mkdir()
    for folder, words in (("nowhere", "nowhere"), ("empty", "is empty")):
        assert main([*GRADE, str(tmp_path / folder)]) == 2
        assert words in capsys.readouterr().err


def test_an_error_of_the_checker_costs_one_student_and_no_other(submissions, tmp_path, monkeypatch):
    good_check = grading.check

    def check(exercise, submission, **options):
        if submission.parent.name == "ben":
            raise RuntimeError("a fault of ours")
        return good_check(exercise, submission, **options)

    monkeypatch.setattr(grading, "check", check)
    assert main([*GRADE, str(submissions), "--csv", str(tmp_path / "grades.csv")]) == 1
    rows = {row["student"]: row for row in csv.DictReader((tmp_path / "grades.csv").open())}
    assert len(rows) == 5 and rows["ada"]["status"] == "pass"
    assert rows["ben"]["status"] == "error"
    place = r"RuntimeError \(test_grade\.py, line \d+\): a fault of ours"
    assert re.search(place, rows["ben"]["first_failure"])


def test_every_student_has_a_seed_of_their_own_that_follows_from_the_secret():
    seeds = [seed_for(secret, name, "lru") for secret in "ab" for name in ("ada", "ben")]
    assert len(set(seeds)) == 4
    assert seeds[0] == seed_for("a", "ada", "lru")
