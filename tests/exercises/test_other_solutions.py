"""Right solutions in other words pass with all points; unknown faults get no wrong diagnosis."""

from pathlib import Path

import pytest

from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.check import Result, check
from minivllm.lessons.checker.child.sandbox import Submission
from minivllm.lessons.checker.report import report

WASTE = "(self.reserved + self.internal) / self.allocated if self.allocated else 0.0"
POSITION = "position < sequence.num_cached_tokens"
CEILING = "-(-num_tokens // self.block_size)"
BUDGET = ":\n            budget"
WITHOUT_VICTIM = "one for one in self.running if one is not victim"
VICTIM = "self.waiting.choose_victim(self.running)\n            plan"

RIGHT = [
    ("waste", WASTE, "1 - self.used / self.allocated if self.allocated else 0.0"),
    ("preemption", "self.running.remove(victim)", f"self.running = [{WITHOUT_VICTIM}]"),
    ("block-table", CEILING, "len(range(0, num_tokens, self.block_size))"),
    ("lru", "if block is self._tail:", "if self.num_free_blocks == 0:"),
    ("token-budget", f"if shortage is None{BUDGET}", f"if not plan.preempted{BUDGET}"),
    ("chunked-prefill", "_tokens == sequence.num_tokens", "_tokens >= sequence.num_tokens"),
    (
        "split-kv",
        "torch.lerp(output[rows].float(), other.float(), share)",
        "(output[rows] + share * (other.float() - output[rows]))",
    ),
    (
        "split-kv",  # each part by its weight in the whole; off by the rounding of the whole's sum
        "torch.lerp(output[rows].float(), other.float(), share)",
        "((mine - (whole := torch.logaddexp(mine, other_lse))).exp().unsqueeze(-1) * output[rows]"
        " + (other_lse - whole).exp().unsqueeze(-1) * other)",
    ),
    ("top-p", "mass_before < top_p * total", "mass_before / total < top_p"),
    ("few-bits", "round((weight - minimum) / scale)", "int((weight - minimum) / scale + 0.5)"),
    (
        "token-mask",
        "_either([left, _after(rest, byte)]) if _may_end(first) else left",
        "_either([left, _after(rest, byte) if _may_end(first) else NOTHING])",
    ),
]

NAMELESS = [
    ("block-table", CEILING, f"max({CEILING}, 1)"),
    ("slot-mapping", POSITION, "position - start < sequence.num_cached_tokens"),
    (
        "slot-mapping",
        POSITION,
        f"{POSITION} or sequence.block_table[position // block_size].ref_cnt > 1",
    ),
    ("block-table", CEILING, "num_tokens / self.block_size"),
    (
        "chunked-prefill",
        "if sequence.num_computed_tokens == sequence.num_tokens",
        "if sequence.num_computed_tokens in (sequence.num_prompt_tokens, sequence.num_tokens)",
    ),
    ("preemption", VICTIM, "self.running[-1]\n            plan"),
    (
        "preemption",
        VICTIM,
        "next((s for s in self.running[::-1] if s.request is sequence.request and s is not"
        " sequence), self.waiting.choose_victim(self.running))\n            plan",
    ),
]
"""Faults outside `wrong/` that share a smallest failing case with one of those."""


def _with_changes(exercise_name: str, ours: str, theirs: str, folder: Path) -> Result:
    exercise = find_exercise(exercise_name)
    assert exercise.source.count(ours) == 1
    file = folder / exercise.student_file
    file.write_text(exercise.source.replace(ours, theirs), encoding="utf-8")
    return check(exercise, Submission(file), patience=0.1)


def _cases(changes: list[tuple[str, str, str]], num_fast: int) -> list:
    return [
        pytest.param(
            *one, id=f"{one[0]}-{number}", marks=[pytest.mark.slow] if number >= num_fast else []
        )
        for number, one in enumerate(changes)
    ]


@pytest.mark.parametrize(("name", "ours", "theirs"), _cases(RIGHT, 1))
def test_a_right_solution_in_other_words_passes_with_all_points(name, ours, theirs, tmp_path):
    result = _with_changes(name, ours, theirs, tmp_path)
    assert result.passed and result.score == result.max_score, "\n".join(report(result))


@pytest.mark.parametrize(("name", "ours", "theirs"), _cases(NAMELESS, 1))
def test_an_unknown_fault_gets_no_diagnosis(name, ours, theirs, tmp_path):
    result = _with_changes(name, ours, theirs, tmp_path)
    assert not result.passed and result.misconception is None
    assert result.first_failure.behaviour.hint in "\n".join(report(result))


def test_failing_only_a_visible_test_costs_a_point_and_does_not_pass(tmp_path):
    exercise = find_exercise("slot-mapping")
    file = tmp_path / exercise.student_file
    # Wrong for the README's example only: the drawn cases have smaller blocks.
    lines = """
good = slot_mapping
def slot_mapping(sequence, start, num_tokens, block_size):
    return [] if len(sequence.token_ids) == 8 and start == 2 \
else good(sequence, start, num_tokens, block_size)
"""
    file.write_text(exercise.source + lines, encoding="utf-8")
    result = check(exercise, Submission(file), patience=0)
    assert result.visible
    assert result.passed == (result.score == result.max_score) and not result.passed
