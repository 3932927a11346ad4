"""Find the bug: real recordings of a real fault, and answers that the recording itself judges."""

from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.events.recording.reader import LogReader
from minivllm.lessons.checker.bugs.judge import first_break, judge
from minivllm.lessons.checker.bugs.record import record
from minivllm.lessons.checker.bugs.rules import RULES, RuleTest, check_rules
from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.checker.dev_check import dev_check

HUNTS = [one for one in exercises() if one.is_hunt]
ROOT = Path(__file__).parents[2]


def _broken_rules(path: Path) -> list[RuleTest]:
    reader = LogReader(path)
    return [one for one in check_rules(reader.header, reader) if not one.kept]


@pytest.mark.parametrize("exercise", HUNTS, ids=lambda exercise: exercise.name)
def test_the_engine_with_the_fault_breaks_the_rule_again(exercise, tmp_path):
    record(exercise, tmp_path / "bad.jsonl")
    assert _broken_rules(tmp_path / "bad.jsonl")[0][:2] == first_break(exercise)[:2]
    assert exercise.recording.stat().st_size < 64_000
    assert list(dev_check(exercise)) == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs/assets/recordings").glob("*.jsonl")))
def test_no_published_recording_breaks_a_rule(path):
    assert _broken_rules(path) == []


def test_the_exercises_ask_for_different_steps_or_rules():
    answers = [(one.step, one.rule) for one in map(first_break, HUNTS)]
    assert len(set(answers)) == len(HUNTS) >= 6


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
    result = judge(HUNTS[0], tmp_path / "answer.toml")
    assert result.exit_status == 2 and complaint in result.could_not_run.text
    assert result.score == 0


def test_no_wrong_answer_passes_or_is_told_the_right_one(tmp_path):
    file = tmp_path / "answer.toml"
    for exercise in HUNTS:
        right = first_break(exercise)
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
    exercise = HUNTS[0]
    assert main(["exercise", "demo", exercise.name]) == 0  # its page says so before `start`
    assert "recording.jsonl --step 1" in capsys.readouterr().out
    assert main(["exercise", "start", exercise.name]) == 0
    folder = home / "workspace" / exercise.name
    names = {"answer.toml", "recording.jsonl", "README.md", "AGENTS.md"}
    assert {one.name for one in folder.iterdir()} == names
    assert main(["exercise", "check", exercise.name]) == 1
    told = capsys.readouterr().out
    assert "nothing is broken" in told and "0 of 3 checks" in told
    right = first_break(exercise)
    (folder / "answer.toml").write_text(f"step = {right.step}\nrule = {right.rule!r}\n")
    assert main(["exercise", "check", exercise.name]) == 0
    assert "3 of 3 checks" in capsys.readouterr().out
    assert main(["exercise", "diff", exercise.name]) == 0
    assert f"--step {right.step}" in capsys.readouterr().out
    submissions = ["--submissions", str(home / "workspace")]
    assert main(["exercise", "grade", exercise.name, *submissions]) == 0
