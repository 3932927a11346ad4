"""An exercise checked in the page gives the verdict of the checker's command."""

import pytest

from minivllm.lab.playground.exercise import check_exercise, exercises_here, start_of
from minivllm.lessons.checker.bugs.judge import first_break
from minivllm.lessons.checker.catalogue import Exercise, find_exercise

QUICK = ("lru", "slot-mapping", "kv-cache", "few-bits", "block-pool")


WRITTEN = [one for one in exercises_here() if not one.is_hunt]
HUNTS = [one for one in exercises_here() if one.is_hunt]


@pytest.mark.parametrize("exercise", WRITTEN, ids=lambda one: one.name)
def test_our_own_code_passes_and_an_unwritten_file_does_not(exercise: Exercise, tmp_path):
    own = check_exercise(exercise.name, exercise.source, tmp_path)
    assert own["passed"] and own["score"] == own["max_score"], own
    unwritten = check_exercise(exercise.name, start_of(exercise.name)["text"], tmp_path)
    assert unwritten["untouched"] and not unwritten["passed"]


@pytest.mark.parametrize("name", QUICK)
def test_every_known_wrong_solution_fails_here_too(name, tmp_path):
    exercise = find_exercise(name)
    for wrong in exercise.wrong_files:
        # The overlay's definitions come last in the module, so they win.
        text = f"{exercise.source}\n\n{_without_future(wrong.read_text(encoding='utf-8'))}"
        found = check_exercise(name, text, tmp_path)
        assert not found.get("passed"), wrong.name


@pytest.mark.parametrize("exercise", HUNTS, ids=lambda one: one.name)
def test_find_the_bug_is_judged_as_by_the_command(exercise: Exercise, tmp_path):
    right = first_break(exercise)
    answer = f'step = {right.step}\nrule = "{right.rule}"\n'
    assert check_exercise(exercise.name, answer, tmp_path)["passed"]
    assert check_exercise(exercise.name, start_of(exercise.name)["text"], tmp_path)["untouched"]
    wrong = exercise.wrong_files[0].read_text(encoding="utf-8")
    found = check_exercise(exercise.name, wrong, tmp_path)
    assert not found["passed"] and found["failure"]
    assert "error" in check_exercise(exercise.name, "step = 0.5\n", tmp_path)


def test_a_failure_shows_the_case_and_where_the_two_sides_part(tmp_path):
    source = find_exercise("slot-mapping").source
    text = source.replace("position % block_size", "position % (block_size + 1)")
    assert text != source
    found = check_exercise("slot-mapping", text, tmp_path)
    assert any("the engine:" in line for line in found["failure"])
    assert found["hint"]


@pytest.mark.parametrize(
    "text", ["def slot_mapping(:\n", "import nothing_of_this_name\n", "1 / 0\n"]
)
def test_a_file_that_cannot_be_loaded_is_one_sentence(text, tmp_path):
    found = check_exercise("slot-mapping", text, tmp_path)
    assert found["error"].startswith("Your file cannot be loaded: ")
    assert "in line 1" in found["error"]


def _without_future(text: str) -> str:
    return text.replace("from __future__ import annotations\n", "")
