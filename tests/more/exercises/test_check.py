"""The findings of a check, their wording, and the recordings for `diff`."""

import json

import pytest
from more.exercises.conftest import EVICTS_WHEN_FREED

from minivllm.events.recording.recording import Recording
from minivllm.lessons.checker.catalogue import exercises, find_exercise
from minivllm.lessons.checker.check import check
from minivllm.lessons.checker.dev_check import dev_check
from minivllm.lessons.checker.diff import write_difference
from minivllm.lessons.checker.report import report

EXERCISE = find_exercise("block-pool")


def test_a_mistake_in_other_code_gets_its_hint_a_smallest_case_and_two_recordings(submit, tmp_path):
    # a busy machine needs it
    result = check(EXERCISE, submit(EVICTS_WHEN_FREED), patience=20)
    (known,) = (mistake for mistake in EXERCISE.mistakes if mistake.name == "evicts_when_freed")
    assert result.misconception == known
    told = "\n".join(report(result))
    assert known.believes in told and known.hint in told
    found = result.first_failure.counterexample
    # One block gets an owner and a name, and loses the owner: the shortest case that shows it.
    assert found.case["num_blocks"] == 1 and len(found.case["operations"]) == 3
    calls = [line.partition("(")[0] for line in found.expected if not line.startswith(" ")]
    assert calls == ["pop_free_block", "cache_block", "release"]
    found = write_difference(result, tmp_path / "diff")
    a, b = ([*map(json.loads, path.read_text().splitlines())] for path in found[:2])
    first = next(i for i, (left, right) in enumerate(zip(a, b, strict=False)) if left != right)
    assert first > 1 and a[first]["step"] == found.step and f"Step {found.step}: " in found.sentence
    recording = Recording(found.engine)
    assert recording.last_step >= found.step
    recording.close()


def test_a_broken_promise_is_told_without_the_engines_objects(tmp_path):
    exercise = find_exercise("block-table")
    (wrong,) = (known for known in exercise.mistakes if known.name == "always_one_more")
    (file := tmp_path / "wrong.py").write_text(wrong.source(exercise.source))
    told = write_difference(check(exercise, file, patience=20), tmp_path).sentence
    promise = "breaks a promise: a block table has the length that its tokens need."
    assert told == f"Step 2: yours {promise}"


@pytest.mark.slow
@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_the_engine_passes_the_stub_fails_and_every_mistake_gets_its_own_hint(exercise):
    assert list(dev_check(exercise)) == []
