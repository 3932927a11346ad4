"""own-policy: its score and its report. `mistakes.toml` has the policies that break its rules."""

from pathlib import Path

from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child.session import Worker
from minivllm.lessons.checker.report import report
from minivllm.lessons.checker.result import Result

EXERCISE = find_exercise("own-policy")


def checked(body: str, folder: Path) -> Result:
    """Check the reference solution with other methods."""
    file = folder / EXERCISE.student_file
    lines = f"class Mine(OwnPolicy):\n{body}\nMine.__name__ = 'OwnPolicy'\nOwnPolicy = Mine\n"
    file.write_text(f"{EXERCISE.source}\n\n{lines}")
    with Worker(EXERCISE) as worker, worker.opened(file) as ask:
        return run_behaviours(EXERCISE, file, ask, patience=0)


def failed(result: Result) -> list[str]:
    return [outcome.behaviour.name for outcome in result.behaviours if not outcome.passed]


def test_our_own_policy_reaches_every_level_and_the_report_has_the_figures_of_all(tmp_path):
    result = checked("    pass\n", tmp_path)
    assert failed(result) == [] and result.passed
    lines = list(report(result))
    rows = {line.split()[0]: line.split() for line in lines if line.split()}
    assert rows["ours"][1:] == rows["yours"][1:] and rows["fcfs"][-1] == "1.00"
    assert "Passed, with level 3 of 3." in lines


def test_a_policy_that_knows_who_will_arrive_is_found(tmp_path):
    body = """
    @staticmethod
    def key(sequence):
        import sys
        frame = sys._getframe()
        while frame is not None and "pending" not in frame.f_locals:
            frame = frame.f_back
        request = sequence.request
        coming = len(frame.f_locals["pending"]) if frame is not None else 0
        return request.arrival_number + coming * request.priority, request.arrival_number, 0
"""
    names = failed(checked(body, tmp_path))
    assert any(name.startswith("no decision depends on what comes later") for name in names)
