"""`exercise demo --all-passed`: the pieces of a student run together in one engine."""

from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.pieces import collect, digest_of
from minivllm.lessons.checker.workspace import Workspace
from minivllm.lessons.teacher.progress import Progress


@pytest.fixture
def write(home: Path):
    """Write a file that passed: the engine's own with a changed line."""

    def make(name: str, old: str = "", new: str = "") -> None:
        exercise = find_exercise(name)
        file = home / "workspace" / name / exercise.student_file
        file.parent.mkdir(parents=True, exist_ok=True)
        assert old in exercise.source
        file.write_text(f"# my own file\n{exercise.source.replace(old, new, 1)}\n")
        Progress().note_check(name, True, digest_of(exercise, file))

    return make


def test_only_passed_exercises_whose_files_have_not_changed_become_pieces(write, home):
    for name in ("lru", "metrics", "slot-mapping", "waste", "block-table"):
        write(name)
    (home / "workspace/slot-mapping/block_math.py").write_text("changed")
    with Progress().change() as file:
        file.exercises.pop("block-table")
    found = collect(Workspace(), Progress().read().exercises)
    assert [exercise.name for exercise, _ in found.pieces] == ["lru"]
    assert set(found.left_out) == {"metrics", "slot-mapping", "waste"}
    assert "has changed since it passed" in found.left_out["slot-mapping"]


def test_pieces_of_every_part_run_together(write, capfd):
    names = ("block-table", "block-pool", "hash-chain", "preemption", "lru", "verify-drafts")
    for name in names:
        write(name)
    # Two exercises on one file: each piece is taken from the student's file of its own.
    own = "self.free_queue.append(block)"
    write("lru", own, f"print('from lru') or {own}")
    assert main(["exercise", "demo", "--all-passed", "--headless"]) == 0
    told = capfd.readouterr()
    assert "from lru" in told.out and "10 of 10 requests finished" in told.out
    assert all(name in told.err for name in names)


def test_a_piece_that_raises_is_named_with_its_line(write, capfd):
    write("lru")
    write("slot-mapping", "    return [", "    raise ValueError('mine')\n    return [")
    assert main(["exercise", "demo", "--all-passed", "--headless"]) == 1
    assert "block_math.py: ValueError in line" in capfd.readouterr().err
