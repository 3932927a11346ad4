"""bubblewrap around student code: it isolates where it works, and warns where it does not."""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child import walls
from minivllm.lessons.checker.child.sandbox import Session, Submission
from minivllm.lessons.checker.holes import stub

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


def processes_with(words: str) -> int:
    listed = subprocess.run(["ps", "-axww", "-o", "args="], capture_output=True, text=True)
    return listed.stdout.count(words)


IN_A_DOUBLE_FREE = """
import os
good_release = BlockPool.release
def release(self, block):
    if block.ref_cnt == 0:
        STATEMENT
    good_release(self, block)
BlockPool.release = release
"""


def test_of_two_processes_only_the_first_answers_and_the_other_ends(submit):
    once = "if not globals().get('forked'): globals()['forked'] = True; os.fork()"
    submission = submit(IN_A_DOUBLE_FREE.replace("STATEMENT", once))
    result = run_behaviours(EXERCISE, submission, patience=0)
    assert result.passed
    assert processes_with(str(submission.file)) == 0


def test_a_fork_bomb_fails_its_behaviour_and_nothing_remains_of_it(submit):
    submission = submit(IN_A_DOUBLE_FREE.replace("STATEMENT", "while True: os.fork()"))
    result = run_behaviours(EXERCISE, submission, patience=0)
    (failed,) = (one for one in result.behaviours if not one.passed)
    assert "at most 5 processes" in failed.counterexample.failure.text
    assert result.score == result.max_score - 2  # and the visible tests, which also run it
    assert processes_with(str(submission.file)) == 0


NAMES_ITSELF_PASSED = """
import os, sys
for number in range(3, 16):
    try:
        os.write(number, b'{"lines": [], "failure": null}\\n' * 20)
    except OSError:
        pass
print("block-pool: 7 of 7 checks passed")
from minivllm.lessons.checker import check
check.Result.passed = property(lambda self: True)
"""


def test_grading_goes_on_after_every_kind_of_bad_file(submit, tmp_path, capsys):
    source = EXERCISE.source
    files = {
        "a-does-not-import": "import no_such_module",
        "b-exits": f"{source}\nraise SystemExit(0)",
        "c-prints": f"{source}\nwhile True: print('x' * 1000)",
        "d-forks": f"{source}\nimport os\nfor _ in range(4): os.fork()",
        "e-names-itself-passed": f"{stub(EXERCISE)}\n{NAMES_ITSELF_PASSED}",
        "f-is-right": source,
    }
    for student, text in files.items():
        (tmp_path / "class" / student).mkdir(parents=True)
        (tmp_path / "class" / student / EXERCISE.student_file).write_text(text)
    grade = ["exercise", "grade", "block-pool", "--submissions", str(tmp_path / "class")]
    assert main([*grade, "--json", str(tmp_path / "grades")]) == 1
    scores = {
        student: json.loads((tmp_path / "grades" / f"{student}.json").read_text())["score"]
        for student in files
    }
    full = scores.pop("f-is-right")
    assert full == 7 == scores.pop("d-forks")  # its forks end, and it is right
    assert set(scores.values()) == {0}
    assert "f-is-right" in capsys.readouterr().err
