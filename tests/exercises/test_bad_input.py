"""Bad student code costs only the behaviour that runs it; the rest is graded."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.server.live_server import wait_for

from minivllm.lessons.checker import check as check_module
from minivllm.lessons.checker.cases.behaviour import behaviours_of
from minivllm.lessons.checker.catalogue import Exercise, find_exercise
from minivllm.lessons.checker.check import Result, run_behaviours
from minivllm.lessons.checker.check import check as check_and_diagnose
from minivllm.lessons.checker.child import sandbox
from minivllm.lessons.checker.child.sandbox import Session, Submission

Submit = Callable[[str], Submission]
EXERCISE = find_exercise("block-pool")

DOUBLE_FREES = "a block without an owner cannot be released"
"""The only behaviour that releases an unowned block. The bad code below runs only there."""


@pytest.fixture(autouse=True)
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few cases: these tests are about bad code, not about finding faults."""
    monkeypatch.setattr(
        check_module,
        "behaviours_of",
        lambda module: [one._replace(examples=12) for one in behaviours_of(module)],
    )


def check(exercise: Exercise, submission: Submission) -> Result:
    """Check without shrinking and without a diagnosis."""
    return run_behaviours(exercise, submission, patience=0)


def only_in_double_frees(statement: str) -> str:
    return f"""
good_release = BlockPool.release
def release(self, block):
    if block.ref_cnt == 0:
        {statement}
    good_release(self, block)
BlockPool.release = release
"""


def failed(result: Result) -> dict[str, str]:
    """Name of each failed behaviour -> kind of its failure."""
    failures = {
        one.behaviour.name: one.counterexample.failure
        for one in result.behaviours
        if not one.passed
    }
    return {name: failure.kind if failure else "differs" for name, failure in failures.items()}


SWALLOWS = (
    "while True:\n            try:\n                while True: pass\n            except"
    " BaseException: pass"
)


PATCHES = "import minivllm.events.recording.lines as other; other.encode_event = lambda event: b''"


@pytest.mark.parametrize(
    ("statement", "kind", "words"),
    [
        ("while True: pass", "time", "endless loop"),
        pytest.param(SWALLOWS, "time", "", marks=pytest.mark.slow),
        ("print('x' * 30_000_000, flush=True)", "output", "more than 1 MB"),
        ("hoard = bytearray(10**9)", "memory", "more than 512 MB"),
        ("raise ValueError('\\ud800 \\x1b[2J')", "raised", "ValueError in line"),
        ("import os; os._exit(7)", "died", "exited with status 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "died", "SIGKILL"),
        ("return -1", "differs", ""),
        ("import os; os.write(1, b'{}'); raise SystemExit", "exit", "sys.exit"),
        (PATCHES, "patched", ""),
    ],
)
def test_a_failure_in_one_behaviour_costs_no_other(submit, statement, kind, words):
    result = check(EXERCISE, submit(only_in_double_frees(statement)))
    assert failed(result) == {DOUBLE_FREES: kind}
    assert result.exit_status == 1
    # This behaviour, and the visible tests, which also run it.
    assert result.score == result.max_score - 2
    failure = result.first_failure.counterexample.failure
    assert words in (failure.text if failure else "")


def test_an_error_in_a_function_that_was_given_is_reported_where_the_student_called_it(submit):
    # The call fails in `FreeKVCacheBlockQueue.remove`, which is no hole: the block is not queued.
    submission = submit("")
    source = submission.file.read_text(encoding="utf-8")
    call = "self.evict(block)\n        block.ref_cnt = 1"
    assert source.count(call) == 1
    submission.file.write_text(
        source.replace(call, f"self.free_queue.remove(block)\n        {call}"), encoding="utf-8"
    )
    line = source[: source.index(call)].count("\n") + 1
    failure = check(EXERCISE, submission).first_failure.counterexample.failure
    assert f"BlockPoolError in line {line}, in _hand_out: " in failure.text


def test_an_error_in_a_helper_is_reported_there_even_if_a_given_function_has_its_name(submit):
    # `remove` is given in `FreeKVCacheBlockQueue`; the student's own helper is another function.
    submission = submit("def remove(block):\n    return block.nothing")
    source = submission.file.read_text(encoding="utf-8")
    call = "self.evict(block)\n        block.ref_cnt = 1"
    text = source.replace(call, f"remove(block)\n        {call}")
    submission.file.write_text(text, encoding="utf-8")
    line = text[: text.index("return block.nothing")].count("\n") + 1
    failure = check(EXERCISE, submission).first_failure.counterexample.failure
    assert f"AttributeError in line {line}, in remove: " in failure.text


def test_code_that_fails_only_sometimes_fails_and_ends_no_check(submit):
    """Hypothesis raises an error of its own if a case fails once and then passes."""
    lines = """
import itertools
calls, good_pop = itertools.count(), BlockPool.pop_free_block
def pop(self):
    block = good_pop(self)
    return block if next(calls) % 7 else self.blocks[0]
BlockPool.pop_free_block = pop
"""
    result = run_behaviours(EXERCISE, submit(lines), patience=2)
    assert result.exit_status == 1 and result.first_failure.counterexample.actual


@pytest.mark.parametrize(
    "statement",
    [
        "import time; time.sleep(60)",
        pytest.param(
            "import signal; signal.setitimer(signal.ITIMER_PROF, 0)\n        while True: pass",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_code_that_ignores_its_timer_is_ended_from_outside(submit, statement, monkeypatch):
    monkeypatch.setattr(sandbox, "WALL_SECONDS", 0.5)
    result = check(EXERCISE._replace(seconds=0.5), submit(only_in_double_frees(statement)))
    assert failed(result) == {DOUBLE_FREES: "time"}
    assert "did not answer in 3.5 seconds" in result.visible[-1]
    # After a first timeout the limit is shorter.
    assert "did not answer in 0.75 seconds" in result.first_failure.counterexample.failure.text
    assert result.score == result.max_score - 2


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("def", "SyntaxError in line"),
        ("x = '\0'", "SyntaxError in the file"),
        pytest.param("while True: pass", "endless loop", marks=pytest.mark.slow),
        ("import no_such_module", "ModuleNotFoundError"),
        ("del BlockPool", "BlockPool"),
    ],
)
def test_a_file_that_cannot_be_loaded_could_not_run(submit, lines, words):
    result = check(EXERCISE, submit(lines))
    assert result.exit_status == 2
    assert words in result.could_not_run.text
    assert result.score == 0


def test_a_link_to_a_file_of_another_name_is_checked_like_the_file(submit):
    file = submit().file
    file.rename(file.with_suffix(".txt"))
    file.symlink_to(file.with_suffix(".txt"))
    assert check(EXERCISE, Submission(file)).passed


def test_processes_and_files_of_a_submission_are_removed_with_it(submit):
    seconds = f"60.{os.getpid()}"  # recognizable in the list of processes

    def runs() -> bool:
        listed = subprocess.run(["ps", "-axww", "-o", "args="], capture_output=True, text=True)
        return seconds in listed.stdout

    lines = f"""
import subprocess
open('left-behind.txt', 'w').write('x')
subprocess.Popen(['sleep', '{seconds}'])
"""
    with Session(EXERCISE, submit(lines)) as session:
        assert session.start() is None
        assert runs()
        scratch = Path(session._scratch.name)
    assert not scratch.exists()
    wait_for(lambda: not runs(), seconds=10)


def test_the_students_code_sees_nothing_of_our_environment(submit, monkeypatch):
    monkeypatch.setenv("MINIVLLM_GRADE_SECRET", "hush")
    lines = "import os\nif 'MINIVLLM_GRADE_SECRET' in os.environ: raise ValueError('leaked')"
    assert check(EXERCISE, submit(lines)).passed


def test_a_result_of_the_wrong_type_is_reported(submit):
    result = check(EXERCISE, submit("BlockPool.pop_free_block = lambda self: 7"))
    failure = result.first_failure.counterexample.failure
    assert failure.kind == "raised"
    assert "cannot be used: AttributeError: 'int'" in failure.text
    other = submit("BlockPool.touch = lambda self, block: 'yes'")
    result = check_and_diagnose(EXERCISE, other, diagnoses=False)
    assert "returns 'yes'" in result.first_failure.counterexample.actual[-1]


@pytest.mark.slow
def test_code_that_changes_its_inputs_is_found_and_cannot_change_the_cases_of_the_reference(
    tmp_path,
):
    exercise = find_exercise("hash-chain")
    file = tmp_path / "kv_cache_manager.py"
    lines = """
good = KVCacheManager._extend_hashes
def extend(self, sequence, num_tokens):
    good(self, sequence, num_tokens)
    sequence.token_ids.reverse()
KVCacheManager._extend_hashes = extend
"""
    file.write_text(exercise.source_file.read_text() + lines)
    result = check(exercise, Submission(file))
    assert not result.passed and not result.behaviours[0].passed
    file.write_text(exercise.source_file.read_text())
    assert check(exercise, Submission(file)).passed


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"", "the engine needs "),
        (
            b"from minivllm.core.block_pool import BlockPool",
            "cannot import BlockPool from there in",
        ),
        (b"\xff\xfe\x00 not python", ""),
    ],
)
def test_a_file_that_imports_the_module_it_replaces_gets_an_explanation(submit, source, words):
    submission = submit()
    submission.file.write_bytes(source)
    result = check(EXERCISE, submission)
    assert result.exit_status == 2 and words in result.could_not_run.text
