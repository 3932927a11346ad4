"""bubblewrap around student code: it isolates where it works, and warns where it does not."""

import os
import shutil
import socket
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.child import walls
from minivllm.lessons.checker.child.sandbox import Session, Submission

EXERCISE = find_exercise("block-pool")
installed = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@installed
def test_sandboxed_code_cannot_write_outside_or_use_the_network_or_a_notice_says_so(
    submit, tmp_path
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
    open(__file__, 'a').write('# changed')
with suppress(OSError):
    socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=5).close()
"""
        submission: Submission = submit(lines)
        handed_in = submission.file.read_text()
        with Session(EXERCISE, submission) as session:
            session.start()
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
    assert (submission.file.read_text() == handed_in) == stand


def test_a_forbidden_bubblewrap_warns_once_and_a_missing_one_does_not(
    submit, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (walls.program(), walls.notice(), walls.before("/scratch")) == (None, None, [])
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    assert walls.before("/scratch") == []
    student = tmp_path / "submissions" / "ada"
    student.mkdir(parents=True)
    shutil.copy(submit().file, student)
    assert main(["exercise", "grade", "block-pool", "--submissions", str(student.parent)]) == 0
    told = capsys.readouterr().err
    assert told.count("bubblewrap is installed but cannot run here") == 1
    assert told.count("bwrap: No permissions to create new namespace") == 1
