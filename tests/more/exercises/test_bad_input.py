"""Bad student code costs only the behaviour that runs it; the rest is graded."""

import os
import subprocess
from pathlib import Path

import pytest
from support.server.live_server import wait_for

from minivllm.lessons.checker.cases.behaviour import VISIBLE, Behaviour
from minivllm.lessons.checker.catalogue import Exercise, find_exercise
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child.session import Worker
from minivllm.lessons.checker.result import Result

EXERCISE = find_exercise("block-pool")

DOUBLE_FREES = "a block without an owner cannot be released"
"""The only behaviour that releases an unowned block. The bad code below runs only there."""


@pytest.fixture(autouse=True)
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few cases: these tests are about bad code, not about finding faults."""
    own = Exercise.behaviours

    def few(exercise: Exercise) -> list[Behaviour]:
        return [part._replace(examples=min(12, part.examples)) for part in own(exercise)]

    monkeypatch.setattr(Exercise, "behaviours", few)


def check(exercise: Exercise, submission: Path) -> Result:
    """Check without shrinking and without a diagnosis."""
    with Worker(exercise) as worker, worker.opened(submission) as ask:
        return run_behaviours(exercise, submission, ask, patience=0)


WRITES_INTO_EVERY_FILE = """import contextlib, os
        for number in range(3, 16):
            with contextlib.suppress(OSError):
                os.write(number, b'x\\n')"""


FORKS = "import os\n        while True: os.fork()"


def only_in_double_frees(statement: str) -> str:
    return f"""
good_release = BlockPool.release
def release(self, block):
    if block.ref_cnt == 0:
        {statement}
    good_release(self, block)
BlockPool.release = release
"""


def runs(words: str) -> bool:
    """Whether a process has these words in its command line."""
    listed = subprocess.run(["ps", "-axww", "-o", "args="], capture_output=True, text=True)
    return words in listed.stdout


def failed(result: Result) -> dict[str, str]:
    """Name of each failed behaviour -> kind of its failure."""
    failures = {
        outcome.behaviour.name: outcome.failure
        for outcome in result.behaviours
        if not outcome.passed and outcome.behaviour.name != VISIBLE
    }
    return {name: failure.kind if failure else "differs" for name, failure in failures.items()}


@pytest.mark.parametrize(
    ("statement", "kind", "words"),
    [
        ("while True: pass", "time", "endless loop"),
        ("print('x' * 30_000_000, flush=True)", "output", "more than 1 MB"),
        ("hoard = bytearray(10**9)", "memory", "more than 512 MB"),
        ("raise ValueError('\\ud800 \\x1b[2J')", "raised", "ValueError in line"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "died", "SIGKILL"),
        ("return -1", "differs", ""),
        ("import os; os.write(1, b'{}'); raise SystemExit", "exit", "sys.exit"),
        (WRITES_INTO_EVERY_FILE, "channel", "own answers"),
        (FORKS, "raised", "at most 5 processes"),
    ],
)
def test_a_failure_costs_no_other_behaviour_and_leaves_no_process(submit, statement, kind, words):
    submission = submit(only_in_double_frees(statement))
    result = check(EXERCISE, submission)
    assert not runs(str(submission))
    assert failed(result) == {DOUBLE_FREES: kind}
    assert result.exit_status == 1
    # This behaviour, and the visible tests, which also run it.
    assert result.score == result.max_score - 2
    failure = result.first_failure.counterexample.failure
    assert words in (failure.text if failure else "")


def test_code_that_ignores_its_timer_is_ended_from_outside(submit):
    result = check(
        EXERCISE._replace(seconds=0.2), submit(only_in_double_frees("import time; time.sleep(60)"))
    )
    assert failed(result) == {DOUBLE_FREES: "time"}
    assert result.score == result.max_score - 2


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("def", "SyntaxError in line"), ("x = '\0'", "SyntaxError in the file"),
        ("import no_such_module", "ModuleNotFoundError"), ("del BlockPool", "BlockPool"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_loaded_could_not_run(submit, lines, words):
    result = check(EXERCISE, submit(lines))
    assert result.exit_status == 2
    assert words in result.could_not_run.text
    assert result.score == 0


def test_processes_and_files_of_a_submission_are_removed_with_it(submit):
    seconds = f"60.{os.getpid()}"  # recognizable in the list of processes
    lines = f"""
import subprocess
open('left-behind.txt', 'w').write('x')
subprocess.Popen(['sleep', '{seconds}'])
"""
    with Worker(EXERCISE) as worker:
        assert worker.ask(str(submit(lines))).failure is None
        assert runs(seconds)
        scratch = Path(worker._scratch.name)
    assert not scratch.exists()
    wait_for(lambda: not runs(seconds))
