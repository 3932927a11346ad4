"""Find the bug: real recordings of a real fault, and the answers to them."""

import copy

import pytest

from minivllm.cli import main
from minivllm.lessons.checker.bugs.judge import RULES, judge, right_answer
from minivllm.lessons.checker.catalogue import Exercise, exercises, find_exercise
from minivllm.lessons.checker.dev_check import dev_check

BUGS = [exercise for exercise in exercises() if exercise.finds_bug]


@pytest.mark.parametrize("exercise", BUGS, ids=lambda exercise: exercise.name)
def test_the_engine_with_the_fault_gives_the_recording_again_and_without_it_another(exercise):
    assert exercise.recording.stat().st_size < 64_000
    assert list(dev_check(exercise)) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"answer": {"step": 20, "rule": "head-first"}}, "puts its rule to the test"),
        ({"answer": {"step": 2, "rule": "budget"}}, "does the same up to the answer's step"),
        ({"steps": 30}, "another recording than recording.jsonl"),
        ({"mistake": []}, "3 wrong answers"),
    ],
)
def test_an_answer_that_the_run_does_not_bear_out_is_a_fault(change, complaint, monkeypatch):
    exercise = find_exercise("bug-last-in-line")
    recipe = {**exercise.recipe, **change}
    monkeypatch.setattr(Exercise, "recipe", property(lambda self: copy.deepcopy(recipe)))
    (fault,) = dev_check(exercise)
    assert complaint in fault


def test_the_exercises_ask_for_different_steps_or_rules():
    assert len(set(map(right_answer, BUGS))) == len(BUGS) >= 6


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("step =", "two lines"),
        ("step = 999\nrule = 'budget'", "from 1 to"),
        ("step = 3\nrule = [1]", "must be one of"),
    ],
)
def test_an_answer_that_cannot_be_read_gets_one_sentence(text, complaint, tmp_path):
    (tmp_path / "answer.toml").write_text(text)
    result = judge(BUGS[0], tmp_path / "answer.toml")
    assert result.exit_status == 2 and complaint in result.could_not_run.text
    assert result.score == 0


def test_no_wrong_answer_passes_or_is_told_the_right_one(tmp_path):
    file = tmp_path / "answer.toml"
    for exercise in BUGS:
        right = right_answer(exercise)
        for step in (right.step - 1, right.step, right.step + 1):
            for rule in RULES:
                file.write_text(f"step = {step}\nrule = {rule!r}\n")
                result = judge(exercise, file)
                is_right = (step, rule) == (right.step, right.rule)
                assert result.passed == is_right
                if not is_right:
                    said = result.first_failure.counterexample.failure.text
                    assert rule == right.rule or right.rule not in said
                    assert step == right.step or f"step {right.step} " not in said.lower()


def test_a_student_starts_answers_and_passes(home, capsys):
    exercise = BUGS[0]
    assert main(["exercise", "demo", exercise.name]) == 0  # its page says so before `start`
    assert "recording.jsonl --step 1" in capsys.readouterr().out
    assert main(["exercise", "start", exercise.name]) == 0
    folder = home / "workspace" / exercise.name
    names = {"answer.toml", "recording.jsonl", "README.md", "AGENTS.md"}
    assert {path.name for path in folder.iterdir()} == names
    assert main(["exercise", "check", exercise.name]) == 1
    told = capsys.readouterr().out
    assert "nothing is broken" in told and "0 of 3 checks" in told
    right = right_answer(exercise)
    (folder / "answer.toml").write_text(f"step = {right.step}\nrule = {right.rule!r}\n")
    assert main(["exercise", "check", exercise.name]) == 0
    assert "3 of 3 checks" in capsys.readouterr().out
    assert main(["exercise", "diff", exercise.name]) == 0
    assert f"--step {right.step}" in capsys.readouterr().out
    submissions = ["--submissions", str(home / "workspace")]
    assert main(["exercise", "grade", exercise.name, *submissions]) == 0
