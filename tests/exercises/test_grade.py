"""Grading a class: every student has a result, in every format."""

import csv
import json
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.grade import seed_for
from minivllm.lessons.checker.holes import stub

EXERCISE = find_exercise("block-pool")
SOURCE = EXERCISE.source
WRONG = (
    "\n\ndef release(self, block):\n    block.ref_cnt = 0\n   "
    " self._put_back(block)\nBlockPool.release = release\n"
)


@pytest.fixture
def submissions(tmp_path: Path) -> Path:
    folder = tmp_path / "submissions"
    for student, text in {
        "ada": SOURCE,
        "ben": SOURCE + WRONG,
        "=cmd": stub(EXERCISE),
        "dan": "def broken(",
        "eve": "",
    }.items():
        (folder / student).mkdir(parents=True)
        if text:
            (folder / student / "block_pool.py").write_text(text)
    return folder


def test_a_class_is_graded_in_all_formats_and_bad_files_cost_only_their_own(
    submissions: Path, tmp_path: Path
):
    out = tmp_path / "out"  # made by the command
    options = ["--csv", str(out / "grades.csv"), "--json", str(out / "json")]
    command = [
        "exercise",
        "grade",
        "block-pool",
        "--submissions",
        str(submissions),
        "--secret",
        "s",
        *options,
    ]
    assert main(command) == 1
    rows = {row["student"]: row for row in csv.DictReader((out / "grades.csv").open())}
    assert {name: row["status"] for name, row in rows.items()} == {
        "ada": "pass", "ben": "fail", "'=cmd": "fail", "dan": "error", "eve": "error",
    }  # fmt: skip
    assert rows["ada"]["score"] == rows["ada"]["max_score"] == "11"
    assert 0 < int(rows["ben"]["score"]) < 10
    assert rows["'=cmd"]["score"] == rows["dan"]["score"] == rows["eve"]["score"] == "0"

    result = json.loads((out / "json" / "ben.json").read_text())
    assert (
        result["score"]
        == sum(test["score"] for test in result["tests"])
        == int(rows["ben"]["score"])
    )
    assert result["max_score"] == sum(test["max_score"] for test in result["tests"]) == 11
    assert {test["status"] for test in result["tests"]} == {"passed", "failed"}
    assert result["extra_data"]["exercises"]["block-pool"]["status"] == "fail"
    *behaviours, seen = result["tests"]
    assert all(
        test["tags"][0] in {f"task:{number}" for number in range(1, 6)} for test in behaviours
    )
    assert all("Hint: " in test["output"] for test in behaviours if test["status"] == "failed")
    assert (
        seen["name"].endswith("visible_test.py")
        and seen["status"] == "failed"
        and "line " in seen["output"]
    )
    assert (
        "could not be loaded: SyntaxError"
        in json.loads((out / "json" / "dan.json").read_text())["output"]
    )
    assert (
        "there is no block_pool.py" in json.loads((out / "json" / "eve.json").read_text())["output"]
    )

    # No hint about the idea for what is not written yet or cannot be loaded.
    for student, words in {"=cmd": "not written yet", "dan": "could not be loaded"}.items():
        tests = json.loads((out / "json" / f"{student}.json").read_text())["tests"][:-1]
        assert (
            all(words in test["output"] and "Hint" not in test["output"] for test in tests)
            and tests
        )

    for student, words in {
        "dan": "could not be loaded: SyntaxError",
        "eve": "there is no block_pool.py",
    }.items():
        assert words in rows[student]["first_failure"]


@pytest.mark.parametrize("option", ["--csv", "--json"])
def test_results_that_cannot_be_written_are_told_before_anybody_is_graded(
    submissions: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture
):
    (tmp_path / "file").write_text("in the way")
    command = ["exercise", "grade", "block-pool", "--submissions", str(submissions)]
    assert main([*command, option, str(tmp_path / "file" / "results")]) == 2
    told = capsys.readouterr().err
    assert "give another place for the results" in told and "ada" not in told


def test_a_format_that_is_gone_is_answered_with_those_that_remain(
    submissions: Path, capsys: pytest.CaptureFixture
):
    assert (
        main(["exercise", "grade", "--submissions", str(submissions), "--junit", "grades.xml"]) == 2
    )
    error = capsys.readouterr().err
    assert "--json" in error and "--csv" in error


def test_one_students_folder_gives_one_file_as_gradescope_wants_it(
    submissions: Path, tmp_path: Path
):
    path = tmp_path / "results.json"
    command = [
        "exercise",
        "grade",
        "block-pool",
        "--submissions",
        str(submissions / "ada"),
        "--json",
        str(path),
    ]
    assert main(command) == 0
    assert json.loads(path.read_text())["score"] == 11


def test_every_student_has_a_seed_of_their_own_that_follows_from_the_secret():
    seeds = [seed_for(secret, name, "lru") for secret in "ab" for name in ("ada", "ben")]
    assert len(set(seeds)) == 4
    assert seeds[0] == seed_for("a", "ada", "lru")


def test_a_folder_without_students_could_not_be_graded(
    tmp_path: Path, capsys: pytest.CaptureFixture
):
    assert main(["exercise", "grade", "--submissions", str(tmp_path / "nowhere")]) == 2
    (tmp_path / "empty").mkdir()
    assert main(["exercise", "grade", "--submissions", str(tmp_path / "empty")]) == 2
    assert "is empty" in capsys.readouterr().err
