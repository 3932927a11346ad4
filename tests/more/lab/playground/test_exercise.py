"""An exercise checked in the page gives the verdict of the checker's command."""

import pytest

from minivllm.lab.playground.exercise import check_exercise, exercises_here, start_of
from minivllm.lessons.checker.catalogue import find_exercise

WRITTEN = [exercise.name for exercise in exercises_here() if not exercise.finds_bug]


@pytest.mark.parametrize("name", WRITTEN)
def test_our_own_code_passes_and_an_unwritten_file_does_not(name, tmp_path):
    exercise = find_exercise(name)
    own = check_exercise(name, exercise.source, tmp_path)
    assert own["passed"] and own["score"] == own["max_score"], own
    unwritten = check_exercise(name, start_of(name)["text"], tmp_path)
    assert unwritten["untouched"] and not unwritten["passed"]


@pytest.mark.parametrize("text", ["def slot_mapping(:\n", "import nothing_of_this_name\n"])
def test_a_file_that_cannot_be_loaded_is_one_sentence(text, tmp_path):
    found = check_exercise("slot-mapping", text, tmp_path)
    assert "in line 1" in found["error"]
