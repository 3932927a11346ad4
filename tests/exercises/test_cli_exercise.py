"""`minivllm exercise` as a student uses it, from the first red to the next exercise."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.cli.course import exercise as command
from minivllm.lessons.checker.catalogue import exercises, find_exercise

EXERCISE = find_exercise("block-pool")
SOURCE = EXERCISE.source


@pytest.fixture
def file(home: Path) -> Path:
    assert main(["exercise", "start", "block-pool"]) == 0
    return home / "workspace" / "block-pool" / "block_pool.py"


def test_the_first_check_is_red_with_an_announcement_and_the_engines_own_source_is_green(file: Path, capsys):
    assert main(["exercise", "check", "block-pool"]) == 1
    told = capsys.readouterr().out
    number = next(i for i, line in enumerate(file.read_text().splitlines(), 1) if "# TODO block-pool" in line)
    assert f"Expected: this starts red. Nothing is broken: open {file}, line {number}" in told
    assert "The smallest case that shows it:" in told
    file.write_text(SOURCE)
    assert main(["exercise", "check"]) == 0
    told = capsys.readouterr().out
    assert "11 of 11 points" in told and "Expected" not in told
    assert main(["exercise", "report", "--json"]) == 0
    assert {"exercise": "block-pool", "passed": True, "checks": 2, "hints": 0} in json.loads(capsys.readouterr().out)
    assert main(["exercise", "next"]) == 0
    first = next(exercise for exercise in exercises() if exercise != EXERCISE)
    assert (file.parents[1] / first.name / first.student_file).is_file()


def test_a_file_that_cannot_be_loaded_ends_with_status_two(file: Path, capsys):
    file.write_text("def broken(")
    assert main(["exercise", "check", "block-pool"]) == 2
    assert "could not be loaded: SyntaxError" in capsys.readouterr().out


def test_what_is_not_there_ends_with_status_two_and_says_what_to_type(capsys):
    assert main(["exercise", "check", "lru"]) == 2
    assert "minivllm exercise start lru" in capsys.readouterr().err
    assert main(["exercise", "check", "no-such"]) == 2
    assert "block-pool, " in capsys.readouterr().err
    assert main(["exercise", "check"]) == 2
    assert "begun no exercise" in capsys.readouterr().err


def test_the_workspace_has_all_that_a_student_and_an_assistant_need(file: Path):
    assert {one.name for one in file.parent.iterdir()} == {"block_pool.py", "README.md", "visible_test.py", "AGENTS.md"}
    assert "teaching assistant" in (file.parent / "AGENTS.md").read_text()


def test_the_visible_tests_run_with_pytest_in_the_workspace(file: Path):
    file.write_text(SOURCE)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "visible_test.py"],
        cwd=file.parent, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


def test_start_never_writes_over_work_and_reset_keeps_it(file: Path, capsys):
    file.write_text("# my work\n")
    assert main(["exercise", "start", "block-pool"]) == 2
    assert file.read_text() == "# my work\n"
    assert "is there already" in capsys.readouterr().err
    assert main(["exercise", "reset", "block-pool"]) == 0
    assert "# TODO block-pool" in file.read_text()
    assert (file.parent / "block_pool.before-1.py").read_text() == "# my work\n"


def test_a_workspace_in_the_repository_is_refused(capsys):
    root = Path(__file__).resolve().parents[2]
    assert main(["exercise", "start", "block-pool", "--workspace", str(root)]) == 2
    assert "choose a folder outside" in capsys.readouterr().err
    assert not (root / "block-pool").exists()


def test_hints_come_one_by_one_and_are_counted(file: Path, capsys):
    for number in (1, 2, 3, 3):
        assert main(["exercise", "hint"]) == 0
        told = capsys.readouterr().out
        assert [hint in told for hint in EXERCISE.hints] == [index < number for index in range(3)]
    main(["exercise", "report", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert {one["exercise"]: one["hints"] for one in told} == {
        exercise.name: 3 * (exercise == EXERCISE) for exercise in exercises()
    }


def test_the_list_names_every_exercise_and_how_far_one_is(file: Path, capsys):
    assert main(["exercise", "list"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "lesson" in line]
    assert [line.split()[0] for line in lines] == [exercise.name for exercise in exercises()]
    assert ["begun" in line for line in lines] == [exercise == EXERCISE for exercise in exercises()]


def test_diff_without_a_terminal_says_what_to_type(file: Path, capsys):
    file.write_text(SOURCE.replace("        block.ref_cnt += 1\n", "        block.ref_cnt += 2\n"))
    capsys.readouterr()
    assert main(["exercise", "diff", "block-pool"]) == 0
    told = capsys.readouterr().out
    assert "A (the engine)" in told and "B (yours)" in told and "minivllm replay" in told and "--step" in told


def test_diff_in_a_terminal_opens_the_compare_screen_at_the_step(file: Path, monkeypatch: pytest.MonkeyPatch):
    file.write_text(SOURCE.replace("        block.ref_cnt += 1\n", "        block.ref_cnt += 2\n"))
    opened = {}

    def open_it(app) -> None:
        opened["app"] = app

    monkeypatch.setattr(command, "terminal_attached", lambda: True)
    monkeypatch.setattr(command, "run_app", open_it)
    assert main(["exercise", "diff", "block-pool"]) == 0
    app = opened["app"]

    import asyncio

    async def look() -> tuple[str, int]:
        async with app.run_test(size=(120, 40)) as pilot:
            for _ in range(40):
                await pilot.pause(0.05)
                if app.model.fold.step:
                    break
            return app.current_mode, app.model.fold.step

    mode, step = asyncio.run(look())
    assert mode == "compare" and step > 0
    assert f"in step {step}" in app.context.watch


def test_diff_of_a_passing_exercise_has_nothing_to_show(file: Path, capsys):
    file.write_text(SOURCE)
    assert main(["exercise", "diff"]) == 2
    assert "passes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("BlockPool._hand_out = lambda self, block: 1 // 0", "ZeroDivisionError in line"),
        ("BlockPool.pop_free_block = lambda self: None", "AttributeError: 'NoneType' object has no attribute"),
    ],
)
def test_a_demo_that_the_students_code_does_not_carry_is_two_sentences(file: Path, capfd, lines: str, words: str):
    file.write_text(f"{SOURCE}\n\n{lines}\n")
    assert main(["exercise", "demo", "block-pool"]) == 1
    told = capfd.readouterr().err
    assert words in told and "minivllm exercise check block-pool" in told and "Traceback" not in told


def test_the_demo_runs_on_the_students_code(file: Path, capfd):
    """A pool that never evicts would be seen in the demo: here one says its name."""
    file.write_text(SOURCE + "\n\nprint('the pool of a student')\n")
    assert main(["exercise", "demo", "block-pool"]) == 0
    assert "the pool of a student" in capfd.readouterr().out


def test_attention_in_torch_runs_in_the_demo_although_the_cpu_has_kernels(file: Path, capfd):
    attention = file.parents[1] / "paged-attention" / "torch_backend.py"
    assert main(["exercise", "start", "paged-attention"]) == 0
    assert attention.is_file()
    assert main(["exercise", "demo", "paged-attention"]) == 1
    assert "TODO" in capfd.readouterr().err
