"""`exercise demo --all-passed`: the pieces of a student run together, and a bad piece is named."""

from collections.abc import Callable
from pathlib import Path

import pytest
from minivllm.lessons.checker.child.pieces_engine import describe

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.child.student import TimeIsUpError
from minivllm.lessons.checker.pieces import OwnPiece, collect, digest_of
from minivllm.lessons.checker.workspace import Workspace
from minivllm.lessons.teacher.progress import Progress

Write = Callable[..., OwnPiece]


@pytest.fixture
def write(home: Path) -> Write:
    """Write a file that passed: the engine's own with changes, and some lines at its end."""

    def make(name: str, lines: str = "", *changes: tuple[str, str]) -> OwnPiece:
        exercise = find_exercise(name)
        file = home / "workspace" / name / exercise.student_file
        file.parent.mkdir(parents=True, exist_ok=True)
        source = exercise.source
        for ours, theirs in changes:
            assert source.count(ours) == 1
            source = source.replace(ours, theirs)
        file.write_text(f"# my own file\n{source}\n{lines}\n")
        Progress().note_check(name, True, digest_of(exercise, file))
        return OwnPiece(exercise, file)

    return make


# ---- which pieces ----


def test_only_passed_exercises_whose_files_pass_today_become_pieces(write, home):
    for name in ("lru", "metrics", "slot-mapping", "waste", "block-table"):
        write(name)
    (home / "workspace/slot-mapping/block_math.py").write_text("changed")
    Progress().change(lambda file: file.exercises.pop("block-table"))
    asked = []
    found = collect(
        Workspace(),
        Progress().read().exercises,
        lambda exercise, file: bool(asked.append(exercise.name)),
    )
    assert [piece.exercise.name for piece in found.pieces] == ["lru"]
    assert asked == ["slot-mapping"]
    assert {one.name for one in found.left_out} == {"metrics", "slot-mapping", "waste"}


# ---- the real thing ----


NEWEST_FIRST = ("self.free_queue.prepend(block)", "self.free_queue.append(block)")
RAISES = ("    return [", "    raise ValueError('mine')\n    return [")


def test_pieces_of_every_part_run_together_without_one_that_raises(write, capfd):
    for name in ("block-table", "block-pool", "hash-chain", "preemption", "verify-drafts"):
        write(name)
    write("lru", "", NEWEST_FIRST)
    write("token-mask")
    write("slot-mapping", "", RAISES)
    assert main(["exercise", "demo", "--all-passed", "--headless"]) == 0
    told = capfd.readouterr()
    assert "10 of 10 requests finished" in told.out
    assert "Without slot-mapping: ValueError in slot_mapping" in told.err
    assert "Without lru: the engine says step " in told.err


def test_a_piece_that_loops_is_told_from_one_that_raises(tmp_path):
    assert "endless loop" in describe(TimeIsUpError(), tmp_path)
    assert describe(ValueError("mine"), tmp_path) == "ValueError: mine"
