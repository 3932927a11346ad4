"""`why` of steps, of events, of the moment, and of anything at any moment of any run."""

from hypothesis import given
from support.engine.random_traces import OPTIONS, REQUESTS, RUNS, folded, run_of
from support.tui.asked_why import NOTHING, ask_why, short

from minivllm.events import types as ev
from minivllm.tui.answers.why import why
from minivllm.tui.draw.selection import block, event, sequence, step
from minivllm.tui.state.model import DashboardModel


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
