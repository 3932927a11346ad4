"""`minivllm exercise` as a student uses it, from the first red check to the next exercise."""

import json
import re
import shlex
import sys
import urllib.parse
from pathlib import Path

import pytest
from more.exercises.conftest import EVICTS_WHEN_FREED

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import exercises, find_exercise

EXERCISE = find_exercise("block-pool")
SOURCE = EXERCISE.source


@pytest.fixture
def file(home: Path) -> Path:
    assert main(["exercise", "start", "block-pool"]) == 0
    return home / "workspace" / "block-pool" / "block_pool.py"


def test_the_first_check_is_red_as_announced_and_the_engines_own_source_is_green(file, capsys):
    assert main(["exercise", "check", "block-pool"]) == 1
    told = capsys.readouterr().out
    number = file.read_text().partition("# TODO block-pool")[0].count("\n") + 1
    assert f"nothing is broken: open {file}, line {number}" in told
    assert "The smallest case that shows it:" in told
    file.write_text("def broken(")
    assert main(["exercise", "check"]) == 2
    assert "SyntaxError" in capsys.readouterr().out
    file.write_text(SOURCE)
    assert main(["exercise", "check"]) == 0
    told = capsys.readouterr().out
    assert "7 of 7 checks" in told and "Expected" not in told
    assert main(["exercise", "diff"]) == 2
    assert "passes" in capsys.readouterr().err
    assert main(["exercise", "report", "--json"]) == 0
    assert {"exercise": "block-pool", "passed": True, "checks": 3, "hints": 0} in json.loads(
        capsys.readouterr().out
    )
    assert main(["exercise", "next"]) == 0
    first = next(exercise for exercise in exercises() if exercise != EXERCISE)
    assert (file.parents[1] / first.name / first.student_file).is_file()


def test_a_failed_check_links_to_a_page_that_opens_at_the_failing_step(file, capsys):
    file.write_text(SOURCE + EVICTS_WHEN_FREED)
    assert main(["exercise", "check"]) == 1
    told = capsys.readouterr().out
    step, address = re.search(r"In a browser, at step (\d+): (file://\S+)", told).groups()
    page = Path(urllib.parse.unquote(urllib.parse.urlparse(address).path)).read_text()
    assert f'data-recording="engine,yours" data-step="{step}"' in page
    file.write_text(SOURCE)
    assert main(["exercise", "check"]) == 0
    assert "In a browser" not in capsys.readouterr().out


def test_start_never_overwrites_work_and_reset_keeps_a_copy(file, capsys):
    names = {"block_pool.py", "README.md", "visible_test.py", "AGENTS.md"}
    assert {path.name for path in file.parent.iterdir()} == names
    file.write_text("# my work\n")
    assert main(["exercise", "start", "block-pool"]) == 2
    assert file.read_text() == "# my work\n" and "already exists" in capsys.readouterr().err
    assert main(["exercise", "reset", "block-pool"]) == 0
    assert "# TODO block-pool" in file.read_text()
    assert (file.parent / "block_pool.before-1.py").read_text() == "# my work\n"


def test_hints_come_one_by_one_and_are_counted(file, capsys):
    for number in (1, 2, 3, 3):
        assert main(["exercise", "hint"]) == 0
        told = capsys.readouterr().out
        assert [hint in told for hint in EXERCISE.hints] == [index < number for index in range(3)]
    main(["exercise", "report", "--json"])
    told = json.loads(capsys.readouterr().out)
    hints = {line["exercise"]: line["hints"] for line in told if line["hints"]}
    assert hints == {"block-pool": 3} and len(told) == len(exercises())


def test_commands_to_type_repeat_the_folder(home, capsys):
    option = ["--workspace", str(home / "my work")]
    for status, action in ((0, "check"), (2, "reset")):
        assert main(["exercise", "start", "block-table", *option]) == status
        told = " ".join("".join(capsys.readouterr()).split())
        assert f"exercise {action} block-table {shlex.join(option)}" in told


def test_in_a_terminal_lines_break_between_words(home, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for action in ("start", "check", "hint"):
        main(["exercise", action, "block-pool"])
        rows = capsys.readouterr().out.splitlines()
        assert not [row for row in rows if len(row) > 60 and " " in row[8:].strip()]


def test_the_demo_runs_on_the_students_code_or_says_why_it_cannot(file, capfd):
    file.write_text(
        SOURCE + "\n\nBlockPool.pop_free_block = lambda self: print('a student') or 7\n"
    )
    assert main(["exercise", "demo", "block-pool"]) == 1
    told = capfd.readouterr()
    assert "a student" in told.out and "AttributeError: 'int' object has no attribute" in told.err
    assert "minivllm exercise check block-pool" in told.err and "Traceback" not in told.err


@pytest.mark.parametrize("name", ["experts", "two-tiers", "verify-drafts"])
def test_the_demo_has_the_model_and_scenario_that_run_the_students_code(name, home, capfd):
    main(["exercise", "start", name])
    main(["exercise", "demo", name, "--headless"])
    assert f"TODO {name}: write" in capfd.readouterr().err


def test_a_wrong_command_ends_with_status_two_and_says_what_to_type(home, capsys):
    root = Path(__file__).resolve().parents[2]
    for words, fact in (
        (["check", "lru"], "minivllm exercise start lru"),
        (["check", "no-such"], "block-pool, "),
        (["check"], "not started an exercise"),
        (["start", "block-pool", "--workspace", str(root)], "outside"),
    ):
        assert main(["exercise", *words]) == 2
        assert fact in capsys.readouterr().err
    assert not (root / "block-pool").exists()
