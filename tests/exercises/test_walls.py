"""bubblewrap around student code: it keeps the code in where it works, and is told of where it does
not.
"""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.child import walls
from minivllm.lessons.checker.child.sandbox import Session, Submission

EXERCISE = find_exercise("block-pool")
installed = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bubblewrap first in the path that may make no namespaces."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def started(tmp_path: Path) -> Path:
    assert main(["exercise", "start", "block-pool"]) == 0
    file = tmp_path / "workspace" / "block-pool" / "block_pool.py"
    file.write_text(EXERCISE.source_file.read_text(encoding="utf-8"))
    return file


@installed
def test_code_behind_walls_writes_nothing_outside_and_reaches_nobody_or_we_are_told(
    submit: Callable, tmp_path: Path
):
    mark = tmp_path / "written"
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = f"""
import socket
from contextlib import suppress
open('inside', 'w').write('x')
with suppress(OSError):
    open({str(mark)!r}, 'w').write('x')
with suppress(OSError):
    socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=5).close()
"""
        with Session(EXERCISE, submit(lines)) as session:
            assert session.start() is None
            assert (Path(session._scratch.name) / "inside").exists()
        server.setblocking(False)
        try:
            server.accept()[0].close()
            reached = True
        except BlockingIOError:
            reached = False
    stand = walls.program() is not None
    assert stand == (walls.notice() is None)
    assert (mark.exists(), reached) == (not stand, not stand)


@installed
def test_the_file_that_is_checked_cannot_be_changed_from_behind_walls(submit: Callable):
    submission: Submission = submit("open(__file__, 'a').write('# changed')")
    handed_in = submission.file.read_text()
    with Session(EXERCISE, submission) as session:
        failure = session.start()
    assert (submission.file.read_text() != handed_in) == (walls.program() is None)
    assert (failure is None) == (walls.program() is None)


def test_a_bubblewrap_that_may_not_work_is_told_once_and_the_work_goes_on(
    refused, started: Path, tmp_path: Path, capsys
):
    assert walls.before("/scratch") == []
    assert main(["exercise", "check", "block-pool"]) == 0
    told = capsys.readouterr()
    assert (
        told.err.count("bwrap: No permissions to create new namespace") == 1
        and "11 of 11 points" in told.out
    )
    student = tmp_path / "submissions" / "ada"
    student.mkdir(parents=True)
    shutil.copy(started, student)
    assert main(["exercise", "grade", "block-pool", "--submissions", str(student.parent)]) == 0
    assert capsys.readouterr().err.count("bubblewrap is installed but cannot run here") == 1


def test_without_bubblewrap_nothing_is_said(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (walls.program(), walls.notice(), walls.before("/scratch")) == (None, None, [])
    assert "bubblewrap" not in capsys.readouterr().err
