"""Accidents of a student's code: each has a clear verdict, nothing is lost, and grading goes on."""

import json
import subprocess

from minivllm.cli import main
from minivllm.lessons.checker.cases.behaviour import VISIBLE
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.check import check
from minivllm.lessons.checker.holes import stub

EXERCISE = find_exercise("block-pool")


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
    result = check(EXERCISE, submission, patience=0)
    failed, visible = (found for found in result.behaviours if not found.passed)
    assert "at most 5 processes" in failed.failure.text
    assert visible.behaviour.name == VISIBLE  # they also run it
    listed = subprocess.run(["ps", "-axww", "-o", "args="], capture_output=True, text=True)
    assert str(submission) not in listed.stdout


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
    assert scores == {name: 7 if name[0] in "cef" else 0 for name in files}
    for student, text in files.items():  # nothing is lost
        assert (tmp_path / "class" / student / EXERCISE.student_file).read_text() == text
