"""The walls around student code: the fence on every system, and bubblewrap where it works."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child import fence, walls
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
    assert reached == (not stand and fence.landlock_version() < 4)
    assert not mark.exists() and submission.file.read_text() == handed_in


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


WRITES_OUTSIDE = """
import pathlib
for other in pathlib.Path(__file__).parents[1].rglob("*.py"):
    try:
        other.write_text("mine")
    except OSError:
        pass
"""
REMOVES_THE_CLASS = """
import pathlib, shutil
shutil.rmtree(pathlib.Path(__file__).parents[1], ignore_errors=True)
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
        "g-writes-outside": source + WRITES_OUTSIDE,
        "h-removes-the-class": source + REMOVES_THE_CLASS,
        "i-ends-the-checker": source + "\nimport os\nos.kill(os.getppid(), 9)",
        "j-removes-itself": source + "\nimport os\nos.remove(__file__)",
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
    for student, text in files.items():  # nothing is lost
        assert (tmp_path / "class" / student / EXERCISE.student_file).read_text() == text


# ---- the fence ----

landlock = pytest.mark.skipif(fence.landlock_version() < 3, reason="needs Landlock (Linux 6.2)")


@pytest.fixture
def neighbour(tmp_path) -> Path:
    """The file of another student, which no submission may change."""
    file = tmp_path / "ben" / "block_pool.py"
    file.parent.mkdir()
    file.write_text("ben's work")
    return file


IN_PYTHON = {
    "writes": "open(FILE, 'w').write('mine')",
    "appends": "open(FILE, 'ab').write(b'mine')",
    "renames": "import os; os.replace(__file__, FILE)",
    "removes": "import os; os.remove(FILE)",
    "removes the folder": "import shutil, os; shutil.rmtree(os.path.dirname(FILE))",
    "follows its own link": "import os; os.symlink(FILE, 'link'); open('link', 'w').write('mine')",
    "gives it a second name": "import os; os.link(FILE, 'twin'); open('twin', 'w').write('mine')",
    "climbs": "import os; open(os.path.relpath(FILE), 'w').write('mine')",
    "locks": "import os; os.chmod(FILE, 0)",
    "empties": "import os; os.truncate(FILE, 0)",
    "hides the error": "import contextlib\nwith contextlib.suppress(OSError): open(FILE, 'w')",
}


@pytest.mark.parametrize("statement", IN_PYTHON.values(), ids=IN_PYTHON)
def test_a_file_that_writes_outside_its_folder_is_refused_and_the_verdict_names_the_path(
    submit, neighbour, statement
):
    with Session(EXERCISE, submit(f"FILE = {str(neighbour)!r}\n{statement}")) as session:
        failure = session.start()
    assert failure.kind == "outside"
    assert str(neighbour.parents[1]) in failure.text and " in line " in failure.text
    assert neighbour.read_text() == "ben's work"
    assert neighbour.stat().st_mode & 0o400


def run_behind_the_hook(statement: str, file: Path) -> str:
    """Run a statement behind a fence without Landlock. Returns what the fence has seen."""
    scratch = file.parents[1] / "scratch"
    scratch.mkdir(exist_ok=True)
    code = f"""
import os, shutil, sys
from minivllm.lessons.checker.child import fence
fence.lock_writes_to = lambda folder: False
hook = fence.Fence(os.getcwd())
FILE, OWN = {str(file)!r}, os.getcwd()
try:
    exec({statement!r})
finally:
    print(hook.failure)
"""
    run = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=scratch, capture_output=True, text=True
    )
    assert run.returncode == 0 or "PermissionError" in run.stderr, run.stderr
    return run.stdout


THERE = "there = os.open(os.path.dirname(FILE), os.O_RDONLY); "
HERE = "here = os.open(OWN, os.O_RDONLY); os.chdir('/'); "
WITH_A_FOLDERS_NUMBER = [
    "os.remove('block_pool.py', dir_fd=there)",
    "os.rmdir('empty', dir_fd=there)",
    "os.mkdir('new', dir_fd=there)",
    "open('own', 'w'); os.rename('own', 'block_pool.py', dst_dir_fd=there)",
    "os.rename('block_pool.py', 'mine', src_dir_fd=there)",
    "open('own', 'w'); os.link('own', 'new', dst_dir_fd=there)",
    "os.link('block_pool.py', 'twin', src_dir_fd=there)",
    "os.symlink('/etc', 'new', dir_fd=there)",
    "os.chmod('block_pool.py', 0, dir_fd=there)",
    "os.utime('block_pool.py', (0, 0), dir_fd=there)",
    "os.chown('block_pool.py', -1, -1, dir_fd=there)",
    "os.chmod(os.open(FILE, os.O_RDONLY), 0)",
    "os.symlink(FILE, 'link'); os.link('link', 'twin', src_dir_fd=os.open('.', os.O_RDONLY))",
    "import sqlite3; sqlite3.connect(FILE)",
    "import sqlite3; sqlite3.connect(f'file:{FILE}?mode=rw', uri=True)",
]


@pytest.mark.parametrize("statement", WITH_A_FOLDERS_NUMBER)
def test_the_hook_alone_resolves_a_folders_number_and_a_database(neighbour, statement):
    (neighbour.parent / "empty").mkdir()
    before = neighbour.stat()
    assert "outside its folder" in run_behind_the_hook(THERE + statement, neighbour)
    assert sorted(os.listdir(neighbour.parent)) == ["block_pool.py", "empty"]
    assert neighbour.read_text() == "ben's work"
    assert (neighbour.stat().st_mode, neighbour.stat().st_mtime) == (
        before.st_mode,
        before.st_mtime,
    )


@pytest.mark.parametrize(
    "statement",
    [
        "os.mkdir('own', dir_fd=here); os.rename('own', 'other', src_dir_fd=here, dst_dir_fd=here)",
        "os.makedirs(OWN + '/a/b'); open(OWN + '/a/b/file', 'w'); shutil.rmtree(OWN + '/a')",
        "open(OWN + '/file', 'w'); os.chmod('file', 0o600, dir_fd=here); os.remove('file',"
        " dir_fd=here)",
        "os.chmod(os.open(OWN + '/file', os.O_RDWR | os.O_CREAT), 0o600)",
        "os.fchmod(os.pipe()[0], 0o600)",
        "hasattr(os, 'memfd_create') and os.ftruncate(os.memfd_create('own'), 8)",
        "import sqlite3; sqlite3.connect(':memory:'); sqlite3.connect(OWN + '/own.db')",
    ],
)
def test_the_hook_alone_allows_the_own_folder_from_anywhere(neighbour, statement):
    assert run_behind_the_hook(HERE + statement, neighbour) == "None\n"


AROUND_PYTHON = {
    "a program": "import subprocess; subprocess.run(['sh', '-c', f'echo mine > {FILE}'])",
    "C": "import ctypes; ctypes.CDLL(None).unlink(FILE.encode())",
    "a link made in C": """import ctypes
libc = ctypes.CDLL(None)
libc.symlink(FILE.encode(), b'link'), libc.link(FILE.encode(), b'twin')
import subprocess; subprocess.run(['sh', '-c', 'echo mine > link; echo mine > twin'])""",
    "a folder's number": """import os
folder = os.open(os.path.dirname(FILE), os.O_RDONLY)
os.write(os.open('block_pool.py', os.O_WRONLY | os.O_TRUNC, dir_fd=folder), b'mine')""",
    "a pipe with a name": "import os; os.mkfifo(FILE + '-pipe')",
    "a process that goes away": "import os, subprocess; subprocess.Popen(['sh', '-c',"
    " f'rm {FILE}'], start_new_session=True).wait()",
}


@landlock
@pytest.mark.parametrize("statement", AROUND_PYTHON.values(), ids=AROUND_PYTHON)
def test_the_kernel_refuses_what_goes_around_python(submit, neighbour, statement):
    run_behind_the_hook(statement, neighbour)  # without the kernel, it does go around
    assert state_of(neighbour) != (["block_pool.py"], "ben's work")
    shutil.rmtree(neighbour.parent)
    neighbour.parent.mkdir()
    neighbour.write_text("ben's work")
    with Session(EXERCISE, submit(f"FILE = {str(neighbour)!r}\n{statement}")) as session:
        session.start()
    assert state_of(neighbour) == (["block_pool.py"], "ben's work")


def state_of(file: Path) -> tuple[list[str], str]:
    return sorted(os.listdir(file.parent)), file.read_text() if file.exists() else ""


@pytest.mark.parametrize("statement", ["os.kill(os.getppid(), 9)", "os.kill(-1, 0)"])
def test_a_file_cannot_end_the_checker(submit, statement):
    with Session(EXERCISE, submit(f"import os\n{statement}")) as session:
        failure = session.start()
    if walls.program() is not None and "getppid" in statement:
        # The parent is bubblewrap's own process, in the file's group: there, the kernel refuses.
        assert failure.kind == "raised" and "PermissionError" in failure.text
    else:
        assert failure.kind == "outside" and "another process" in failure.text


def test_a_group_whose_leader_has_ended_is_refused(neighbour):
    script = "sleep 60 >&- 2>&- <&- & echo $!"
    leader = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    sleeper = int(leader.communicate()[0])
    try:
        os.killpg(leader.pid, 0)  # the group is there
        seen = run_behind_the_hook(f"os.killpg({leader.pid}, 9)", neighbour)
        assert "another process" in seen
        os.kill(sleeper, 0)
    finally:
        os.kill(sleeper, 9)


def test_a_file_may_signal_its_own_group(neighbour):
    assert run_behind_the_hook("os.killpg(os.getpgrp(), 0); os.killpg(0, 0)", neighbour) == "None\n"


@pytest.mark.skipif(fence.landlock_version() < 6, reason="needs Landlock of Linux 6.12")
def test_the_kernel_refuses_a_signal_to_the_checker_and_a_connection(submit):
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = f"""
import ctypes, os, socket
assert ctypes.CDLL(None).kill(os.getppid(), 0) == -1
try:
    socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=5)
except PermissionError:
    pass
else:
    raise AssertionError
"""
        with Session(EXERCISE, submit(lines)) as session:
            assert session.start() is None


@landlock
def test_a_lock_that_fails_is_no_lock(tmp_path, monkeypatch):
    assert walls.landlock() == fence.landlock_version()
    assert not fence.lock_writes_to(str(tmp_path / "missing"))
    (tmp_path / "still").write_text("unlocked")

    def forbidden(*_, **__):
        return subprocess.CompletedProcess([], 0, b"False\n")

    monkeypatch.setattr(subprocess, "run", forbidden)
    assert walls.landlock.__wrapped__() == 0


def test_a_file_may_use_its_folder_its_own_processes_and_the_null_device(submit):
    lines = """
import os, subprocess, tempfile
os.mkdir('own'); open('own/file', 'w').write('x'); os.rename('own/file', 'file')
os.symlink('/etc/hosts', 'link'); os.remove('link'); os.remove('file'); os.rmdir('own')
with tempfile.TemporaryDirectory() as folder: open(f'{folder}/file', 'w').write('x')
open(os.devnull, 'w').write('x')
subprocess.run(['true'], stdout=subprocess.DEVNULL, check=True)
sleeper = subprocess.Popen(['sleep', '60']); sleeper.kill(); sleeper.wait()
"""
    with Session(EXERCISE, submit(lines)) as session:
        assert session.start() is None
