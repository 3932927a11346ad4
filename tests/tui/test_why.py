"""`why`: every branch on a real run, and every number in a sentence the fold's or an event's."""

import re

import pytest
from hypothesis import given
from random_traces import OPTIONS, REQUESTS, RUNS, context_with, folded, run_of

from minivllm.events import types as ev
from minivllm.tui.model import DashboardModel
from minivllm.tui.selection import Selection, Target, block, event, sequence, step
from minivllm.tui.why import why
from minivllm.tui.why_sequences import reason_to_wait

NOTHING = Selection()


def ask_why(model: DashboardModel, target: Target) -> str:
    return why(model, context_with(target).selection)


def short(seq_id: str) -> str:
    return seq_id.removesuffix(".0")


# ---- sequences that wait ----


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


# ---- sequences that run or have ended ----


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
    run.engine._scheduler.max_num_batched_tokens = 2
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


# ---- blocks ----


def test_a_held_block_is_told_with_its_owner_entry_and_fill(memory_pressure) -> None:
    model = folded(memory_pressure.run(13))
    for block_id, state in enumerate(model.fold.blocks):
        if state.ref_cnt != 1:
            continue
        ((seq_id, logical),) = model.owners(block_id)
        said = ask_why(model, block(block_id))
        written = min(max(model.fold.sequences[seq_id].num_computed_tokens - logical * 8, 0), 8)
        born = next(
            e.step
            for e in reversed(memory_pressure.events)
            if isinstance(e, ev.BlockAllocated) and e.block_id == block_id
        )
        assert said.startswith(
            f"Block {block_id} is held by {short(seq_id)} alone, as entry {logical} of its block table, in use since step {born}: "
        )
        assert f"{written} of 8 tokens are written" in said
        assert ("a prompt that begins alike can share it" in said) == (state.hash is not None)


def test_a_block_that_was_hit_is_shared_since_then(shared_prefix) -> None:
    model = folded(shared_prefix.run(22))
    hits = {e.seq_id: e.step for e in shared_prefix.events if isinstance(e, ev.BlockHit) and e.block_id == 0}
    steps = sorted(set(hits.values()))
    assert ask_why(model, block(0)) == (
        f"Block 0 is shared by r0, r1, r2 and r3 (reference count 4): r0 took it in step 1, and r1, r2 and r3 found it in the prefix cache in steps "
        f"{steps[0]} to {steps[-1]}; it is full, so its 8 tokens are stored once for all of them."
    )


def test_a_block_of_forks_is_shared_since_they_parted(samples) -> None:
    model = folded(samples.run(1))
    common = [one for one, state in enumerate(model.fold.blocks) if state.ref_cnt == 3]
    full, partial = common[0], common[-1]
    start = "is shared by r0, r0.1 and r0.2 (reference count 3): r0 took it in step 1, and r0.1 and r0.2 were forked in step 1; "
    assert (
        ask_why(model, block(full))
        == f"Block {full} {start}it is full, so its 8 tokens are stored once for all of them."
    )
    written = model.fold.sequences["r0.0"].num_computed_tokens % 8
    assert written
    assert (
        ask_why(model, block(partial))
        == f"Block {partial} {start}{written} of its 8 tokens are written, and who writes the next one copies it first."
    )


def test_a_free_block_is_told_who_left_it_and_when_it_dies(memory_pressure) -> None:
    model = folded(memory_pressure.run(60))
    queue, kinds = list(model.fold.free_queue), set()
    for place, block_id in enumerate(queue, start=1):
        said = ask_why(model, block(block_id))
        freed = [e for e in memory_pressure.events if isinstance(e, ev.BlockReleased) and e.block_id == block_id]
        ordinal = re.search(r"(\d+)(?:st|nd|rd|th) of (\d+) to be handed out", said)
        assert (int(ordinal[1]), int(ordinal[2])) == (place, len(queue))
        assert f"{short(freed[-1].seq_id)} held it last, until step {freed[-1].step}, " in said
        if model.fold.blocks[block_id].hash is not None:
            assert said.startswith(f"Block {block_id} is free but still cached: ") and "it dies as the" in said
        else:
            assert said.startswith(f"Block {block_id} is empty: ") and "its content had no hash" in said
        kinds.add(said.split(":")[0].removeprefix(f"Block {block_id} is "))
    assert kinds == {"free but still cached"}


def test_a_block_whose_owner_was_stopped_half_way_is_empty(samples) -> None:
    model = folded(samples.run())
    block_id = next(
        b for b, state in enumerate(model.fold.blocks) if state.hash is None and model.ages.blocks[b] is not None
    )
    said = ask_why(model, block(block_id))
    released = [e for e in samples.events if isinstance(e, ev.BlockReleased) and e.block_id == block_id][-1]
    assert said.startswith(
        f"Block {block_id} is empty: {short(released.seq_id)} held it last, until step {released.step}, its content had no hash, "
    )


def test_between_release_and_queue_a_block_is_in_nobodys_hands(memory_pressure) -> None:
    model = DashboardModel(memory_pressure.header)
    for one in memory_pressure.run(60).events:
        model.apply(one)
        if isinstance(one, ev.BlockReleased):
            break
    assert ask_why(model, block(one.block_id)) == (
        f"Block {one.block_id} has just lost its last owner: the event after this one puts it on the free queue."
    )


def test_a_block_that_nobody_has_held_is_empty_and_one_that_is_not_there_is_not(samples) -> None:
    model = folded(samples.run(3))
    assert ask_why(model, block(47)).startswith("Block 47 is empty: nobody has held it in this recording so far; ")
    assert ask_why(model, block(48)) == "There is no block 48: the pool has 48 blocks, and the first is 0."


def test_with_caching_off_blocks_and_the_moment_say_so(stage, ask) -> None:
    run = stage(
        [ask("r0", "word " * 30, "yes"), ask("r1", "word " * 30, "an answer " * 20)], enable_prefix_caching=False
    )
    model = folded(run.run(8))
    held, left = model.fold.sequences["r1.0"].block_table[0], next(iter(model.fold.free_queue))
    assert "prefix caching is off, so nobody else can find it" in ask_why(model, block(held))
    assert "prefix caching is off, so nothing of it can be found again" in ask_why(model, block(left))
    assert (
        why(model, NOTHING)
        == "Prefix caching is off, so none of the 60 prompt tokens so far came from the cache, and none will."
    )


# ---- steps, events, the moment ----


def test_a_step_is_told_with_its_sums_and_what_was_left_over(memory_pressure) -> None:
    model = folded(memory_pressure.run(60))
    deferred = {e.step: e for e in memory_pressure.events if isinstance(e, ev.RequestDeferred)}
    preempted = {e.step: e for e in memory_pressure.events if isinstance(e, ev.RequestPreempted)}
    for record in model.steps.records:
        said = ask_why(model, step(record.step))
        assert said.startswith(
            f"Step {record.step} gave out {record.used} of {record.budget} tokens ({record.decode_tokens} decode, {record.prefill_tokens} prefill)"
        )
        if record.step in preempted:
            one = preempted[record.step]
            assert (
                f" and preempted {short(one.seq_id)} because {short(one.victim_of)} needed {one.need} block with {one.free} free, "
                in said
            )
        if record.step in deferred:
            one = deferred[record.step]
            assert f"because {short(one.seq_id)}, the first in the queue, " in said and str(one.need) in said
        else:
            assert said.endswith("were left because nobody waited.")
        assert f"and {record.budget - record.used} were left" in said or record.used == record.budget


def test_steps_out_of_memory_and_under_way_are_said_to_be_so(shared_prefix) -> None:
    model = folded(shared_prefix.run(5))
    assert (
        ask_why(model, step(900))
        == "Step 900 is not remembered at this moment: it comes later, or is none of the last 240 steps."
    )
    model.apply(ev.StepBegin(model.fold.last_seq + 1, 6, 1.0, 64))
    assert ask_why(model, step(6)) == "Step 6 is under way: what it did with its budget is known when it ends."


def test_an_event_is_told_as_the_decision_that_it_began(shared_prefix) -> None:
    model = folded(shared_prefix.run(22))
    admitted = [e for e in shared_prefix.events if isinstance(e, ev.RequestAdmitted)][-1]
    assert ask_why(model, event(admitted.seq)) == (
        f"In step {admitted.step} r3 enters slot 3, {admitted.num_cached_tokens} tokens cached (event {admitted.seq}); s shows the code that decided it."
    )
    begun = next(e for e in shared_prefix.events if isinstance(e, ev.StepBegin))
    assert ask_why(model, event(begun.seq)) == (
        f"Event {begun.seq} is none of the last decisions told here; s shows the code that emitted it."
    )


def test_with_nothing_chosen_the_most_interesting_fact_is_told(memory_pressure, shared_prefix, stage, ask) -> None:
    assert why(folded(memory_pressure.run(19)), NOTHING).startswith(
        "Step 19 gave out 2 of 64 tokens (2 decode, 0 prefill) and preempted r2 because r0 needed 1 block"
    )
    assert why(folded(shared_prefix.run(22)), NOTHING).startswith("r4 is the first in the queue and needs 1 batch slot")
    end = folded(shared_prefix.run())
    assert (
        why(end, NOTHING)
        == f"Nobody runs and nobody waits at step {end.fold.step}: 8 requests have ended, smollm2 is idle."
    )
    one = folded(stage([ask("r0", "word " * 30, "x " * 40)]).run(3))
    assert (
        why(one, NOTHING)
        == f"1 sequence runs and nobody waits: {len(one.fold.free_queue)} of 64 blocks are free, and the prefix cache had 0 of the 30 prompt tokens looked up so far."
    )
    full = folded(stage([ask("r0", "word " * 60, "x " * 4, max_tokens=5)], num_blocks=8).run(1))
    assert (
        why(full, NOTHING)
        == "0 of 8 blocks are free with 1 running: if one of them needs more than that, somebody is preempted."
    )


def test_trouble_is_told_before_anything_else(memory_pressure) -> None:
    model = folded(memory_pressure.run(19))
    model.apply(ev.InvariantViolated(model.fold.last_seq + 1, 19, 0.0, "no duplicate", "[1, 1]"))
    assert (
        why(model, NOTHING)
        == "The engine has reported 1 invariant violation, which means a bug in it: the events say which."
    )
    model.apply(ev.Gap(model.fold.last_seq + 1, 19, 0.0, 12))
    assert why(model, NOTHING) == "12 events are missing here, so the picture stands still at step 19."


@RUNS
@given(REQUESTS, OPTIONS)
def test_anything_at_any_moment_has_one_clean_sentence(stage, ask, requests, options) -> None:
    run = run_of(stage, ask, requests, options)
    model = DashboardModel(run.header)
    for number, one in enumerate(run.events):
        model.apply(one)
        if number % 5:
            continue
        chosen = [sequence(s) for s in [*model.fold.running, *model.fold.waiting[:2], "r0.0", "r0.1"]]
        chosen += [step(one.step), event(one.seq), *(block(b) for b in range(0, len(model.fold.blocks), 3))]
        for said in [why(model, NOTHING), *(ask_why(model, target) for target in chosen)]:
            assert said.endswith(".") and ". " not in said and "  " not in said and "None" not in said
            assert said.isprintable()


@RUNS
@given(REQUESTS, OPTIONS)
def test_who_is_said_to_have_got_all_that_was_missing_did(stage, ask, requests, options) -> None:
    run = run_of(stage, ask, requests, options)
    model, sampled = (
        DashboardModel(run.header),
        {(e.step, e.seq_id) for e in run.events if isinstance(e, ev.TokenSampled)},
    )
    for one in run.events:
        model.apply(one)
        if not isinstance(one, ev.StepEnd):
            continue
        for item in model.fold.scheduled:
            said = ask_why(model, sequence(item.seq_id))
            if "all that were missing" in said:
                # Then it had its prompt's last token in this step, and gained one.
                assert (one.step, item.seq_id) in sampled
