"""`why` of a sequence: every branch on a real run, and every number in a sentence the fold's or an event's."""

import re

import pytest
from support.engine.random_traces import folded
from support.tui.asked_why import NOTHING, ask_why, short

from minivllm.events import types as ev
from minivllm.tui.answers.why import why
from minivllm.tui.answers.why_sequences import reason_to_wait
from minivllm.tui.draw.selection import sequence, step
from minivllm.tui.state.model import DashboardModel


def test_the_first_in_the_queue_is_told_what_it_lacks_and_who_holds_it(memory_pressure) -> None:
    model = folded(memory_pressure.run(13))
    fold = model.fold
    reason, need, free = fold.sequences["r3.0"].deferred
    assert (reason, need > free) == ("no_blocks", True)
    said = ask_why(model, sequence("r3.0"))
    assert said.startswith(f"r3 is the first in the queue and needs {need} blocks with {free} free (")
    for seq_id in fold.running:
        assert f"{short(seq_id)} holds {len(fold.sequences[seq_id].block_table)}" in said
    assert said.endswith(f"of {len(fold.blocks)} blocks); {short(fold.waiting[1])} is next after it.")


def test_one_behind_the_first_waits_for_what_the_first_lacks(memory_pressure) -> None:
    model = folded(memory_pressure.run(13))
    _, need, free = model.fold.sequences["r3.0"].deferred
    assert ask_why(model, sequence("r5.0")) == (
        f"r5 is number 3 in the queue, and only the first is looked at: r3, which needs {need} blocks with {free} free."
    )


def test_a_preempted_one_is_told_for_whom_and_how_much_goes_through_the_model_again(memory_pressure) -> None:
    model = folded(memory_pressure.run(60))
    events = {e.seq_id: e for e in memory_pressure.events if isinstance(e, ev.RequestPreempted)}
    assert set(events) == {"r1.0", "r2.0"}
    for seq_id, one in events.items():
        said = ask_why(model, sequence(seq_id))
        assert (
            f"it was preempted in step {one.step} for {short(one.victim_of)}, which needed {one.need} block with {one.free} free"
            in said
        )
        assert f"its {model.fold.sequences[seq_id].num_tokens} tokens must go through the model again" in said


def test_one_that_waits_for_a_slot_is_told_who_has_them(shared_prefix) -> None:
    assert ask_why(folded(shared_prefix.run(22)), sequence("r4.0")) == (
        "r4 is the first in the queue and needs 1 batch slot with 0 of 4 free (r0, r1, r2 and r3 run); r5 is next after it."
    )


def test_one_that_came_after_the_plan_has_no_reason_yet(shared_prefix) -> None:
    model = folded(shared_prefix.run(4))
    model.apply(ev.RequestArrived(model.fold.last_seq + 1, 4, 0.2, "new", "new.0", 0, [1, 2, 3], 9))
    said = "new is the first in the queue and came after the plan of step 4: the next one looks at it."
    assert ask_why(model, sequence("new.0")) == said
    assert why(model, NOTHING) == said


def test_before_the_first_step_nobody_came_after_a_plan(stage, ask) -> None:
    run = stage([ask("r0", "some words", "yes"), ask("r1", "other words", "no")])
    run.engine.add_request("r0", "some words", ask("r0", "some words", "yes").params)
    model = folded(run)
    assert model.fold.step == 0 and model.fold.waiting == ["r0.0"]
    said = "r0 is the first in the queue, and no step has been planned yet: the first one looks at it."
    assert ask_why(model, sequence("r0.0")) == said


def test_who_finds_the_budget_used_up_is_told_so(stage, ask) -> None:
    asks = [ask("r0", "word " * 60, "yes"), ask("r1", "word " * 30, "no")]
    model = folded(stage(asks, max_num_batched_tokens=16).run(2))
    assert ask_why(model, sequence("r1.0")) == "r1 is the first in the queue and came after the budget was used up."
    assert ask_why(model, step(2)) == (
        "Step 2 gave out 16 of 16 tokens (0 decode, 16 prefill), all there was, and nobody more came in because r1, "
        "the first in the queue, came after the budget was used up."
    )


@pytest.mark.parametrize(
    ("reason", "need", "free", "words"),
    [
        ("token_budget", 30, 7, "needs 30 tokens at once with 7 of the budget left"),
        (
            "preempted_this_step",
            1,
            0,
            "was not looked at in a step that preempted somebody for want of 1 block, 0 being free",
        ),
        ("no_contiguous_run", 9, 4, "needs 9 blocks in a row, the longest free run has 4"),
        ("static_batch", 3, 0, "waits: the batch before it has 3 sequences left"),
        ("batch_delay", 4, 1, "waits for company: 1 of 4 have come"),
        ("of a newer\x1b version", 4, 1, "waits: of a newer version"),
    ],
)
def test_every_reason_reads_on_after_a_name(reason: str, need: int, free: int, words: str, shared_prefix) -> None:
    assert reason_to_wait(folded(shared_prefix), reason, need, free) == words


# ---- that run or have ended ----


def test_a_decode_and_two_kinds_of_prefill_have_their_reasons(stage, ask) -> None:
    run = stage(
        [ask("r0", "a b", "an answer " * 9), ask("r1", "word " * 40, "yes", arrives=2)], max_num_batched_tokens=32
    )
    model = folded(run.run(3))
    assert ask_why(model, sequence("r0.0")) == (
        "r0 got 1 token in step 3: the first 3 of its tokens were computed before, and a decode is the one that came last."
    )
    assert ask_why(model, sequence("r1.0")) == (
        "r1 got 31 tokens in step 3 because no more of the budget of 32 was left when its turn came: 31 of its 40 tokens are "
        "computed now."
    )
    for one in run.run(1).events[model.fold.last_seq + 1 :]:
        model.apply(one)
    assert ask_why(model, sequence("r1.0")) == (
        "r1 got 9 tokens in step 4: all that were missing after the first 31, while 31 of 32 were left for it."
    )


def test_cached_tokens_are_part_of_the_reason(shared_prefix) -> None:
    model = folded(shared_prefix.run(7))
    (item,) = [item for item in model.fold.scheduled if item.seq_id == "r2.0"]
    said = ask_why(model, sequence("r2.0"))
    assert (
        f"got {item.num_tokens} tokens in step 7: all that were missing after the first {item.num_computed_tokens} ("
        in said
    )
    assert f"({model.fold.sequences['r2.0'].num_cached_tokens} came from the cache)" in said


def test_one_that_runs_without_tokens_is_told_that_the_budget_was_used_up(memory_pressure) -> None:
    # Only a live option can do that: the budget is lowered below the number of those that run.
    run = memory_pressure.run(8)
    model = folded(run)
    run.engine._stepper.scheduler.max_num_batched_tokens = 2
    for one in run.run(1).events[model.fold.last_seq + 1 :]:
        model.apply(one)
    got = {item.seq_id for item in model.fold.scheduled}
    starved = [seq_id for seq_id in model.fold.running if seq_id not in got]
    assert len(got) == 2 and starved
    for seq_id in starved:
        assert (
            ask_why(model, sequence(seq_id))
            == f"{short(seq_id)} got no token in step 9: those before it used up all 2 of the budget."
        )


def test_a_fork_had_no_part_of_its_first_steps_budget(samples) -> None:
    model = folded(samples.run(2))
    forked = [e for e in samples.events if isinstance(e, ev.RequestForked)]
    at_fork = DashboardModel(samples.header)
    for one in samples.events:
        if one.step <= forked[0].step:
            at_fork.apply(one)
    for one in forked:
        said = ask_why(at_fork, sequence(one.seq_id))
        assert (
            said
            == f"{one.seq_id} was forked in step {one.step} and had no part of its budget: it took over what its parent had computed."
        )
        assert "got 1 token" in ask_why(model, sequence(one.seq_id)) or one.step == 2


def test_the_ends_of_sequences_are_told_with_their_reason(stage, ask) -> None:
    run = stage(
        [ask("r0", "a b", "an answer"), ask("r1", "c d", "an answer " * 9, max_tokens=5), ask("r2", "e f", "x " * 50)]
    )
    run.run(20).engine.abort_request("r2")
    model = folded(run)
    done = {one.seq_id: one for one in model.fold.history}
    when = {
        name: f"in step {one.step} with {one.num_tokens} tokens, its prompt among them" for name, one in done.items()
    }
    assert (
        ask_why(model, sequence("r0.0"))
        == f"r0 ended by itself {when['r0.0']}: the model gave an end token, or a stop string came."
    )
    assert ask_why(model, sequence("r1.0")) == f"r1 ended {when['r1.0']}, because that is its token limit."
    assert ask_why(model, sequence("r2.0")) == f"r2 was ended from outside {when['r2.0']}."
    assert (
        ask_why(model, sequence("zz.0"))
        == "zz is not known at step 20: it comes later, was a beam that died, or ended long ago."
    )


def test_a_beam_that_waits_for_its_sibling_is_told_so(stage, ask) -> None:
    words = "one two three four five six seven"
    asks = [ask(f"r{i}", " ".join(f"w{i}{k}" for k in range(9)), words, max_tokens=16, beams=3) for i in range(3)]
    run = stage(asks, num_blocks=18, block_size=4, max_num_batched_tokens=12, max_num_seqs=9)
    model, said = DashboardModel(run.header), []
    seen = 0
    while run.step():
        for one in run.events[seen:]:
            model.apply(one)
        seen = len(run.events)
        got = {item.seq_id for item in model.fold.scheduled}
        said += [ask_why(model, sequence(s)) for s in model.fold.running if s not in got]
    waits = [one for one in said if "waits for a preempted sibling" in one]
    assert waits and all(
        re.fullmatch(
            r"r\d(\.\d+)? got no token in step \d+: all its \d+ tokens are computed, and it waits for a preempted sibling\.",
            one,
        )
        for one in waits
    )
