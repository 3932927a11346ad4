"""own-policy: four rules, and a score that any order of the waiting requests can earn."""

from pathlib import Path

import pytest

from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.check import Result, run_behaviours
from minivllm.lessons.checker.child.sandbox import Submission
from minivllm.lessons.checker.report import report

EXERCISE = find_exercise("own-policy")
STARVES, REPEATS = "is overtaken by more than", "the same requests give the same schedule"


def checked(body: str, folder: Path) -> Result:
    """Check the reference solution with other methods."""
    file = folder / EXERCISE.student_file
    lines = f"class Mine(OwnPolicy):\n{body}\nMine.__name__ = 'OwnPolicy'\nOwnPolicy = Mine\n"
    file.write_text(f"{EXERCISE.source}\n\n{lines}")
    return run_behaviours(EXERCISE, Submission(file), patience=0)


def failed(result: Result) -> list[str]:
    return [one.behaviour.name for one in result.behaviours if not one.passed]


def test_our_own_policy_reaches_every_level_and_the_report_has_the_figures_of_all(tmp_path):
    result = checked("    pass\n", tmp_path)
    assert failed(result) == [] and result.passed
    lines = list(report(result))
    rows = {line.split()[0]: line.split() for line in lines if line.split()}
    assert rows["ours"][1:] == rows["yours"][1:] and rows["fcfs"][-1] == "1.00"
    assert "Passed, with level 3 of 3." in lines


def test_first_come_first_served_keeps_the_rules_and_reaches_no_level(tmp_path):
    body = """
    @staticmethod
    def key(sequence):
        return sequence.request.arrival_number, sequence.index

    def choose_victim(self, running):
        return running[-1]
"""
    result = checked(body, tmp_path)
    assert [name[:7] for name in failed(result)] == ["level 1", "level 2", "level 3"]
    assert not result.passed
    assert "the score is 1.00" in result.first_failure.counterexample.failure.text


def test_shortest_first_starves_somebody_whatever_its_score(tmp_path):
    body = """
    @staticmethod
    def key(sequence):
        return sequence.num_prompt_tokens, sequence.request.arrival_number, sequence.index
"""
    result = checked(body, tmp_path)
    assert any(STARVES in name or "overtaken" in name for name in failed(result))
    assert not result.passed


@pytest.mark.parametrize(
    "source",
    [
        "import random\n        return sequence.request.arrival_number + random.random() * 9, 0",
    ],
)
def test_chance_and_memory_between_runs_are_found(source, tmp_path):
    body = f"    @staticmethod\n    def key(sequence):\n        {source}\n"
    assert any(name.startswith(REPEATS) for name in failed(checked(body, tmp_path)))


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


def test_a_policy_that_raises_or_loops_gets_a_verdict(tmp_path):
    result = checked(
        "    def choose_victim(self, running):\n        raise KeyError('who')\n", tmp_path
    )
    assert not result.passed and "KeyError in line" in "\n".join(report(result))
