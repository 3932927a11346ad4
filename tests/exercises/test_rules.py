"""Each rule of "find the bug" can fail: an edited log breaks it in one step, and breaks no other.

The log is that of a small real run: two samples of `r0`, and `r1` with the same beginning. `r2` is
preempted in step 5 and `r1` in step 7; both are back in step 9. Blocks have 2 tokens.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from minivllm.events import types as ev
from minivllm.lessons.checker.bugs.rules import RULES, check_rules
from minivllm.lessons.checker.cases.traces import build_engine, run_trace

Log = list[ev.Event]
RUN = {
    "num_blocks": 12,
    "block_size": 2,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 16,
    "enable_prefix_caching": True,
    "requests": [
        {"alike": 4, "own": 1, "max_tokens": 8, "arrives": 0, "letter": 1, "n": 2},
        {"alike": 4, "own": 2, "max_tokens": 8, "arrives": 2, "letter": 2},
        {"alike": 0, "own": 5, "max_tokens": 6, "arrives": 3, "letter": 3},
    ],
}


@cache
def _recorded() -> tuple[ev.LogHeader, tuple[ev.Event, ...]]:
    engine, events = build_engine(RUN), []
    header = engine.log_header()
    engine.subscribe(events.append)
    assert all(line.startswith("{") for line in run_trace(RUN, engine))
    return header, tuple(events)


def _broken(events: Log) -> set[tuple[str, int]]:
    found = check_rules(_recorded()[0], events)
    return {(one.rule, one.step) for one in found if not one.kept}


# ---- edits ----


def _at(log: Log, kind: type[ev.Event], **fields: Any) -> int:
    """The index of the only event of this kind with these fields."""
    found = [
        index
        for index, event in enumerate(log)
        if type(event) is kind
        and all(getattr(event, name) == value for name, value in fields.items())
    ]
    assert len(found) == 1, f"{kind.__name__} {fields}: {len(found)} events"
    return found[0]


def _change(log: Log, index: int, **fields: Any) -> Log:
    return [*log[:index], msgspec.structs.replace(log[index], **fields), *log[index + 1 :]]


def _move(log: Log, first: int, behind: int, count: int = 1) -> Log:
    """Move `count` events behind a later one."""
    end = first + count
    return [*log[:first], *log[end : behind + 1], *log[first:end], *log[behind + 1 :]]


def _a_smaller_budget(log: Log) -> Log:
    return _change(log, _at(log, ev.StepBegin, step=4), budget=7)


def _preempted_behind_the_front(log: Log) -> Log:
    return _change(log, _at(log, ev.RequestPreempted, step=5), position=1)


def _steps_without_a_beginning(log: Log) -> Log:
    """What begins with step 7 does not end before step 10: r1 and r2 are admitted in it."""
    ends = [_at(log, ev.StepBegin, step=step) for step in (8, 9)]
    return [event for index, event in enumerate(log) if index not in ends]


def _tokens_for_a_victim(log: Log) -> Log:
    """r1 gets a token in the step that preempts it."""
    last = log[_at(log, ev.StepScheduled, step=6, seq_id="r1.0")]
    share = msgspec.structs.replace(last, step=7, num_computed_tokens=last.num_computed_tokens + 1)
    first = min(
        index
        for index, event in enumerate(log)
        if type(event) is ev.BlockReleased and event.step == 7
    )
    return [*log[:first], share, *log[first:]]


def _a_slot_of_another(log: Log) -> Log:
    return _change(log, _at(log, ev.RequestAdmitted, seq_id="r2.0"), slot=0)


def _a_block_after_the_plan(log: Log) -> Log:
    evicted = _at(log, ev.BlockEvicted, step=6)
    return _move(log, evicted, _at(log, ev.StepScheduled, step=6, seq_id="r1.0"), count=2)


def _a_token_again(log: Log) -> Log:
    index = _at(log, ev.StepScheduled, step=4, seq_id="r1.0")
    return _change(log, index, num_computed_tokens=5, num_tokens=2)


def _a_copy_after_the_write(log: Log) -> Log:
    write = _at(log, ev.StepScheduled, step=2, seq_id="r0.0")
    return _move(log, _at(log, ev.BlockCopied, step=2), write)


def _computed_after_sampling(log: Log) -> Log:
    """The block that the token fills gets its hash later, too."""
    planned = _at(log, ev.StepScheduled, step=6, seq_id="r0.0")
    return _move(log, planned, _at(log, ev.TokenSampled, step=6, seq_id="r0.0"), count=2)


def _a_hash_before_the_block_is_full(log: Log) -> Log:
    planned = _at(log, ev.StepScheduled, step=4, seq_id="r0.0")
    return _move(log, planned, planned + 1)


def _two_blocks_in_the_other_order(log: Log) -> Log:
    first = _at(log, ev.BlockReleased, step=12, seq_id="r1.0", block_id=9)
    return _move(log, first, first + 3, count=2)


def _freed_too_late(log: Log) -> Log:
    first = _at(log, ev.BlockFreed, step=5, block_id=10)
    return _move(log, first, first + 1)


def _the_second_free_block(log: Log) -> Log:
    """Step 10 evicts and hands out block 9, and then block 10."""
    first = _at(log, ev.BlockEvicted, step=10, block_id=9)
    return _move(log, first, first + 3, count=2)


EDITS: dict[str, tuple[Callable[[Log], Log], int]] = {
    "budget": (_a_smaller_budget, 4),
    "queue-order": (_preempted_behind_the_front, 5),
    "no-admission": (_steps_without_a_beginning, 9),
    "plan-kept": (_tokens_for_a_victim, 7),
    "own-slot": (_a_slot_of_another, 4),
    "table-room": (_a_block_after_the_plan, 6),
    "continue": (_a_token_again, 4),
    "one-writer": (_a_copy_after_the_write, 2),
    "sample-last": (_computed_after_sampling, 6),
    "same-hash": (_a_hash_before_the_block_is_full, 4),
    "tail-first": (_two_blocks_in_the_other_order, 12),
    "last-owner": (_freed_too_late, 5),
    "head-first": (_the_second_free_block, 10),
}
"""Per rule: an edit that breaks it, and the step in which it does."""


def test_the_run_itself_breaks_no_rule_and_tests_them_all():
    header, events = _recorded()
    assert {one.rule for one in check_rules(header, events) if one.kept} == set(RULES)
    assert _broken(list(events)) == set()


def test_each_rule_has_an_edit():
    assert set(EDITS) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_fails_in_exactly_the_step_that_was_edited(rule):
    edit, step = EDITS[rule]
    assert _broken(edit(list(_recorded()[1]))) == {(rule, step)}
