"""The findings of a check, their wording, and the recordings for `diff`."""

import json
from collections.abc import Callable

from minivllm.events.recording.recording import Recording
from minivllm.lessons.checker import diagnosis
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.check import check
from minivllm.lessons.checker.child.sandbox import Session, Submission
from minivllm.lessons.checker.diagnosis import read_misconception
from minivllm.lessons.checker.diff import write_difference
from minivllm.lessons.checker.report import report

Submit = Callable[[str], Submission]
EXERCISE = find_exercise("block-pool")

EVICTS_WHEN_FREED = """
def my_release(self, block):
    if block.ref_cnt < 1:
        raise BlockPoolError("nobody has it")
    block.ref_cnt = block.ref_cnt - 1
    if not block.ref_cnt:
        named = block.block_hash
        if named:
            self.evict(block)
        self._put_back(block)
BlockPool.release = my_release
"""


def test_the_same_mistake_in_other_code_gets_the_hint_of_its_misconception(submit):
    result = check(EXERCISE, submit(EVICTS_WHEN_FREED))
    known = read_misconception(EXERCISE.folder / "wrong" / "evicts_when_freed.py")
    assert result.misconception == known
    told = "\n".join(report(result))
    assert known.sentence in told and known.hint in told


def test_an_unchecked_end_is_not_mistaken_for_forgotten_pieces():
    exercise = find_exercise("stop-strings")
    file = exercise.folder / "wrong" / "the_end_does_not_look.py"
    result = check(exercise, Submission(file, "overlay"), patience=0.02)
    assert result.misconception == read_misconception(file)


def test_a_belief_is_named_if_its_error_is_raised_in_another_function_of_the_students_file(
    tmp_path,
):
    """A file of `wrong/` has only the wrong function, so there the engine's own code raises it."""
    exercise = find_exercise("top-p")
    wrong = exercise.folder / "wrong" / "overflows.py"
    file = tmp_path / exercise.student_file
    file.write_text(f"{exercise.source}\n\n{wrong.read_text()}")
    (behaviour,) = [one for one in exercise.behaviours() if "smallest set" in one.name]
    rows = [{"logits": [0.0, 1.0], "temperature": 0.001, "top_p": 0.001}]
    failures = []
    for submission in (Submission(file), Submission(wrong, "overlay")):
        with Session(exercise, submission) as session:
            answer = session.ask({"behaviour": behaviour.key, "case": {"rows": rows}})
            failures.append(answer.failure)
    assert ["in line" in one.text for one in failures] == [True, False]
    assert diagnosis._words(failures[0]) == diagnosis._words(failures[1])


RAISES_IN_THE_ENGINE = """
good_release = BlockPool.release
def release(self, block):
    if len(self.blocks) > 4:  # no pool of operations alone is so large
        raise ValueError('the \\x1b[2J block')
    good_release(self, block)
BlockPool.release = release
"""


def test_the_difference_of_a_step_that_raises_names_the_step_and_the_error(submit, tmp_path):
    result = check(EXERCISE, submit(RAISES_IN_THE_ENGINE), diagnoses=False)
    found = write_difference(result, tmp_path / "diff")
    line = result.file.read_text().partition("raise ValueError('the")[0].count("\n") + 1
    words = f"In step {found.step} yours stops: ValueError in line {line}, in release: the "
    assert found.sentence.startswith(words)
    assert f"A, the engine, continues: step {found.step}: block.freed" in found.sentence
    assert "\x1b" not in found.sentence
    last = json.loads(found.yours.read_text().splitlines()[-1])
    assert last["step"] == found.step and last["ev"] != "step.end"


def test_a_failing_case_is_as_small_as_it_can_be_and_its_difference_is_two_recordings(
    submit, tmp_path
):
    # a busy machine needs it
    result = check(EXERCISE, submit(EVICTS_WHEN_FREED), diagnoses=False, patience=20)
    found = result.first_failure.counterexample
    # One block gets an owner and a name, and loses the owner: the shortest case that shows it.
    assert found.case["num_blocks"] == 1 and len(found.case["operations"]) == 3
    calls = [line.partition("(")[0] for line in found.expected if not line.startswith(" ")]
    assert calls == ["pop_free_block", "cache_block", "release"]
    found = write_difference(result, tmp_path / "diff")
    a, b = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (found.engine, found.yours)
    )
    first = next(i for i, (one, other) in enumerate(zip(a, b, strict=False)) if one != other)
    assert first > 1 and a[first]["step"] == found.step and f"step {found.step}" in found.sentence
    recording = Recording(found.engine)
    assert recording.last_step >= found.step
    recording.close()
