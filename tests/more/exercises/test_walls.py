"""The fence around student code: a hook on every system, and Landlock where the kernel has it.

One case for each kind of escape or accident.
"""

import json
import subprocess
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child import fence
from minivllm.lessons.checker.child.sandbox import Session
from minivllm.lessons.checker.holes import stub

EXERCISE = find_exercise("block-pool")
landlock = pytest.mark.skipif(fence.landlock_version() < 3, reason="no Landlock in this kernel")


@pytest.fixture
def neighbour(tmp_path) -> Path:
    """The file of another student, which no submission may change."""
    file = tmp_path / "ben" / "block_pool.py"
    file.parent.mkdir()
    file.write_text("ben's work")
    return file


IN_PYTHON = {
    "writes": "open(FILE, 'w').write('mine')",
    "removes a class": "import shutil, os; shutil.rmtree(os.path.dirname(FILE))",
    "follows its own link": "import os; os.symlink(FILE, 'link'); open('link', 'w').write('mine')",
    "a folder's number": "import os; os.remove('block_pool.py', dir_fd=os.open("
    "os.path.dirname(FILE), os.O_RDONLY))",
    "a database": "import sqlite3; sqlite3.connect(FILE)",
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


AROUND_PYTHON = {
    "a program": "import subprocess; subprocess.run(['sh', '-c', f'echo mine > {FILE}'])",
    "C": "import ctypes; ctypes.CDLL(None).unlink(FILE.encode())",
    "a folder's number": """import os
folder = os.open(os.path.dirname(FILE), os.O_RDONLY)
os.write(os.open('block_pool.py', os.O_WRONLY | os.O_TRUNC, dir_fd=folder), b'mine')""",
    "a process that goes away": "import os, subprocess; subprocess.Popen(['sh', '-c',"
    " f'rm {FILE}'], start_new_session=True).wait()",
}


@landlock
@pytest.mark.parametrize("statement", AROUND_PYTHON.values(), ids=AROUND_PYTHON)
def test_the_kernel_refuses_what_goes_around_python(submit, neighbour, statement):
    with Session(EXERCISE, submit(f"FILE = {str(neighbour)!r}\n{statement}")) as session:
        session.start()
    assert neighbour.read_text() == "ben's work"


def test_a_file_cannot_end_the_checker(submit):
    with Session(EXERCISE, submit("import os\nos.kill(os.getppid(), 9)")) as session:
        failure = session.start()
    assert failure.kind == "outside" and "another process" in failure.text


def test_a_fork_bomb_fails_its_behaviour_and_nothing_remains_of_it(submit):
    submission = submit("""
import os
good_release = BlockPool.release
def release(self, block):
    while block.ref_cnt == 0:
        os.fork()
    good_release(self, block)
BlockPool.release = release
""")
    result = run_behaviours(EXERCISE, submission, patience=0)
    (failed,) = (one for one in result.behaviours if not one.passed)
    assert "at most 5 processes" in failed.counterexample.failure.text
    assert result.score == result.max_score - 2  # and the visible tests, which also run it
    listed = subprocess.run(["ps", "-axww", "-o", "args="], capture_output=True, text=True)
    assert str(submission.file) not in listed.stdout


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


def test_grading_goes_on_after_every_kind_of_bad_file(tmp_path):
    source = EXERCISE.source
    files = {
        "a-exits": f"{source}\nraise SystemExit(0)",
        "b-prints": f"{source}\nwhile True: print('x' * 1000)",
        "c-forks": f"{source}\nimport os\nfor _ in range(4): os.fork()",
        "d-names-itself-passed": f"{stub(EXERCISE)}\n{NAMES_ITSELF_PASSED}",
        "e-is-right": source,
        "f-removes-itself": source + "\nimport os\nos.remove(__file__)",
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
    assert scores == {name: 7 if name in ("c-forks", "e-is-right") else 0 for name in files}
    for student, text in files.items():  # nothing is lost
        assert (tmp_path / "class" / student / EXERCISE.student_file).read_text() == text
