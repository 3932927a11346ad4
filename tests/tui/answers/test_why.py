"""`why`: names, numbers and reasons in its sentences are the fold's or an event's.

The wording is free.
"""

import re

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from support.engine.random_runs import OPTIONS, REQUESTS, RUNS, folded, run_of
from support.tui.shown import ask_why, ends_of_steps, missing_from, moments

from minivllm.events import types as ev
from minivllm.tui.answers.why import why_block
from minivllm.tui.answers.why_sequences import list_names
from minivllm.tui.draw.selection import block, event, sequence, step
from minivllm.tui.state.explanations import piece_of


def short(seq_id: str) -> str:
    return seq_id.removesuffix(".0")


def says(said: str, *facts: object) -> None:
    assert missing_from(said, *facts) == [], said


@settings(RUNS, max_examples=10)
@given(REQUESTS, OPTIONS)
def test_anything_at_any_moment_has_one_clean_sentence(stage, ask, requests, options) -> None:
    run = run_of(stage, ask, requests, options)
    sampled = {(e.step, e.seq_id) for e in run.events if isinstance(e, ev.TokenSampled)}
    for number, (model, e) in enumerate(moments(run)):
        for item in model.fold.scheduled if isinstance(e, ev.StepEnd) else ():
            if "all that it needed" in ask_why(model, sequence(item.seq_id)):
                # It had its prompt's last token in this step, and gained one.
                assert (e.step, item.seq_id) in sampled
        names = [*model.fold.running, *model.fold.waiting[:2], "r0.0", "r0.1"]
        targets = [step(e.step), event(e.seq), *map(sequence, names)]
        targets += map(block, range(0, len(model.fold.blocks), 3))
        for target in targets if number % 13 == 0 else ():
            said = ask_why(model, target)
            assert said.endswith(".") and said.isprintable()
            assert not re.search(r"\.\.|  |None", said)


# ---- steps, events and the moment ----


def test_a_step_is_explained_with_its_sums_and_its_unused_budget(memory_pressure) -> None:
    model = folded(memory_pressure.run(60))
    deferred = {e.step: e for e in memory_pressure.events if isinstance(e, ev.RequestDeferred)}
    preempted = {e.step: e for e in memory_pressure.events if isinstance(e, ev.RequestPreempted)}
    for record in model.steps.records:
        said = ask_why(model, step(record.step))
        says(said, record.step, f"{record.used} of {record.budget}")
        back = model.fold.step - record.step
        assert (f"{back} step" in said) == (back > 0), "the screen shows another step"
        says(said, f"{record.decode_tokens} decode", f"{record.prefill_tokens} prefill")
        if (e := preempted.get(record.step)) is not None:
            says(said, "preempted", short(e.seq_id), short(e.victim_of), e.need, e.free)
        if (e := deferred.get(record.step)) is not None:
            says(said, short(e.seq_id), e.need)
        else:
            says(said, "no sequence was", "waiting", record.budget - record.used)
    # A preemption names its beneficiary, and what is computed again.
    assert {e.seq_id for e in preempted.values()} == {"r1.0", "r2.0"}
    for e in preempted.values():
        again = model.fold.sequences[e.seq_id].num_tokens
        facts = "preempted", e.step, short(e.victim_of), e.need, e.free or "none", again
        says(ask_why(model, sequence(e.seq_id)), *facts)


def test_w_explains_the_most_notable_fact(memory_pressure, shared_prefix, stage, ask) -> None:
    pressed = folded(memory_pressure.run(19))
    assert ask_why(pressed) == ask_why(pressed, step(19))
    waiting = folded(shared_prefix.run(22))
    assert ask_why(waiting) == ask_why(waiting, sequence("r4.0"))
    end = folded(shared_prefix.run())
    says(ask_why(end), end.fold.step, 8, "smollm2")
    asks = [ask(f"r{at}", f"{at} " * 28, "x " * 4, max_tokens=4) for at in range(2)]
    for memory, words in (("paged", "scheduler preempts"), ("contiguous", "none is preempted")):
        options = {"kv_cache_allocator": memory, "max_model_len": 32}
        says(ask_why(folded(stage(asks, num_blocks=8, **options).run(1))), 0, 8, words)
    # Lost events come before anything else.
    pressed.apply(ev.Gap(pressed.fold.last_seq + 1, 19, 0.0, 12))
    says(ask_why(pressed), 12, "missing", 19)


# ---- sequences that wait ----


def test_the_queue_waits_for_what_its_first_lacks(memory_pressure, shared_prefix) -> None:
    model = folded(memory_pressure.run(13))
    fold = model.fold
    reason, need, free = fold.sequences["r3.0"].deferred
    assert (reason, need > free) == ("no_blocks", True)
    said = ask_why(model, sequence("r3.0"))
    says(said, "r3", need, free, len(fold.blocks))
    for seq_id in fold.running:
        says(said, short(seq_id), len(fold.sequences[seq_id].block_table))
    says(ask_why(model, sequence("r5.0")), "r5", 3, "r3", need, free)
    assert "counted for each" not in said
    model = folded(shared_prefix.run(22))
    for_a_slot = ask_why(model, sequence("r4.0"))
    says(for_a_slot, "r4", "1 batch slot", 0, 4, "r0", "r1", "r2", "r3")
    model.fold.sequences["r4.0"].deferred = ("preempted_this_step", 1, 0)
    says(ask_why(model, sequence("r4.0")), "no request is admitted", "shared ones counted for each")


def test_only_what_arrives_inside_a_step_arrived_after_its_plan(memory_pressure) -> None:
    for model, e in moments(memory_pressure.run()):
        for first in model.fold.waiting[:1]:
            is_late = model.ledger.sequences[first].arrived_step == e.step
            assert is_late or "arrived after" not in ask_why(model, sequence(first))


# ---- sequences that run or have ended ----


def test_decodes_and_prefill_chunks_name_their_tokens(stage, ask, shared_prefix) -> None:
    asks = [ask("r0", "a b", "an answer " * 9), ask("r1", "word " * 40, "yes", arrives=2)]
    run = stage(asks, max_num_batched_tokens=32).run(3)
    model = folded(run)
    says(ask_why(model, sequence("r0.0")), "r0", "1 token", 3, "decode")
    says(ask_why(model, sequence("r1.0")), "r1", "31 tokens", 3, 32, 40)
    said = ask_why(folded(run.run(1)), sequence("r1.0"))
    says(said, "r1", "9 tokens", 4, "first 31", "31 of the budget of 32")
    # Tokens from the cache are part of the reason.
    model = folded(shared_prefix.run(7))
    cached = model.fold.sequences["r2.0"].num_cached_tokens
    says(ask_why(model, sequence("r2.0")), 7, f"{cached} came from the cache")


def test_a_sequence_without_tokens_gets_a_reason(memory_pressure, samples, stage, ask) -> None:
    # Only a live option can do this: the budget is lowered below the number of running sequences.
    run = memory_pressure.run(8)
    run.engine.core.scheduler.max_num_batched_tokens = 2
    model = folded(run.run(1))
    starved = set(model.fold.running) - {item.seq_id for item in model.fold.scheduled}
    for seq_id in starved:
        says(ask_why(model, sequence(seq_id)), short(seq_id), "no token", 9, 2, "budget")
    # A fork had no part of its first step's budget.
    model = folded(samples.run(1))
    forks = [e for e in samples.events if isinstance(e, ev.RequestForked)]
    for fork in forks:
        says(ask_why(model, sequence(fork.seq_id)), fork.seq_id, "forked", fork.step, "parent")
    assert starved and forks
    # A beam waits for its preempted sibling.
    prompts = [" ".join(f"w{i}{k}" for k in range(9)) for i in range(3)]
    asks = [
        ask(f"r{i}", prompt, "a b c d e f g", max_tokens=16, beams=3)
        for i, prompt in enumerate(prompts)
    ]
    run = stage(asks, num_blocks=18, block_size=4, max_num_batched_tokens=12, max_num_seqs=9).run()
    waits = 0
    for model in ends_of_steps(run):
        idle = set(model.fold.running) - {item.seq_id for item in model.fold.scheduled}
        waits += sum("sibling" in ask_why(model, sequence(seq_id)) for seq_id in idle)
    assert waits
    # An asynchronous vLLM has planned its last token, and does not know it yet.
    model.header, model.fold.scheduled = replace(model.header, source="vLLM 0.32.0"), []
    for seq_id, state in model.fold.sequences.items():
        model.fold.running, state.status = [seq_id], "RUNNING"
        state.num_computed_tokens = state.num_tokens + 1
        says(ask_why(model, sequence(seq_id)), state.num_tokens, "token of the step before")


def test_of_several_wrong_drafts_the_first_is_named(drafts) -> None:
    num_seen = 0
    for model, e in moments(drafts.run()):
        if isinstance(e, ev.DraftVerified):
            wrong = model.drafts.current(e.seq_id, e.step).rejected
            if len(wrong) > 1 and wrong[0] != wrong[-1]:
                first = piece_of(model.fold, wrong[0])
                assert f"instead of {first} the model" in ask_why(model, sequence(e.seq_id))
                num_seen += 1
    assert num_seen


def test_finished_sequences_are_explained_with_their_finish_reason(stage, ask) -> None:
    long = ask("r1", "c d", "an answer " * 9, max_tokens=5)
    run = stage([ask("r0", "a b", "an answer"), long, ask("r2", "e f", "x " * 50)]).run(20)
    run.engine.abort_request("r2")
    model = folded(run)
    reasons = {"r0": "end token", "r1": "limit", "r2": "aborted"}
    for done in model.fold.history:
        name = short(done.seq_id)
        said = ask_why(model, sequence(done.seq_id))
        says(said, name, done.step, done.num_tokens, reasons.pop(name))
    assert reasons == {}
    says(ask_why(model, sequence("zz.0")), "zz", "not known", 20)


def test_a_sequence_says_how_long_it_waited_and_why(memory_pressure, shared_prefix) -> None:
    model = folded(memory_pressure.run(63))
    assert "r1.0" in model.fold.running
    says(ask_why(model, sequence("r1.0")), "in step 63", "waited 12 steps", "preempted once", "r0")
    for run in (memory_pressure.run(), shared_prefix.run()):
        model = folded(run)
        for record in model.ledger.sequences.values():
            own = [e for e in run.events if getattr(e, "seq_id", None) == record.seq_id]
            said, waited, since = ask_why(model, sequence(record.seq_id)), 0, None
            for e in own:
                if isinstance(e, ev.RequestArrived | ev.RequestPreempted):
                    since = e.step
                elif isinstance(e, ev.RequestAdmitted | ev.RequestResumed):
                    waited += e.step - since
            lost = [e for e in own if isinstance(e, ev.RequestPreempted)]
            assert (f"waited {waited} steps" in said) == (waited > 1)
            assert ("preempted" in said) == bool(lost)
            says(said, *(str(e.need) for e in lost[-1:]), record.end.step)
    said = ask_why(model, sequence("r4.0"))
    assert said.startswith("r4 waited 48 steps: all 4 slots taken.")
    assert said.endswith("--max-num-seqs.")
    says(ask_why(model, sequence("r5.0")), "behind r4", "all 4 slots taken")
    says(ask_why(folded(memory_pressure), sequence("r4.0")), "behind r3, r2 and r1", "8 blocks")
    model = folded(memory_pressure)  # r1 waits twice, in the longer wait for blocks
    phases = model.ledger.sequences["r1.0"].phases
    phases[0] = replace(phases[0], step=0)
    model.steps.waits[:0] = [(ev.RequestDeferred(0, 1, 0.0, "r1.0", "token_budget", 1, 0), 1)]
    says(ask_why(model, sequence("r1.0")), "waited 13 steps: needs 12", "--num-gpu-blocks-override")


# ---- blocks ----


def test_a_used_block_is_explained_with_its_owner_entry_and_fill(memory_pressure) -> None:
    model = folded(memory_pressure.run(13))
    born = {e.block_id: e.step for e in memory_pressure.events if isinstance(e, ev.BlockAllocated)}
    for block_id, state in enumerate(model.fold.blocks):
        if state.ref_cnt == 1:
            ((seq_id, entry),) = model.owners(block_id)
            said, computed = ask_why(model, block(block_id)), model.fold.sequences[seq_id]
            written = min(max(computed.num_computed_tokens - entry * 8, 0), 8)
            says(said, block_id, short(seq_id), f"entry {entry}", born[block_id])
            says(said, f"{written} of 8")
            assert ("can share it" in said) == (state.hash is not None)


def test_a_free_block_names_its_last_owner_and_its_reuse(memory_pressure, samples) -> None:
    kinds = set()
    for run in (memory_pressure.run(60), samples.run()):  # the second one ends in a partial block
        model = folded(run)
        queue = list(model.fold.free_queue)
        last = {e.block_id: e for e in run.events if isinstance(e, ev.BlockReleased)}
        for place, block_id in enumerate(queue, start=1):
            said = ask_why(model, block(block_id))
            ordinal = re.search(r"(\d+)(?:st|nd|rd|th) of (\d+)", said)
            assert (int(ordinal[1]), int(ordinal[2])) == (place, len(queue))
            if block_id in last:
                says(said, block_id, short(last[block_id].seq_id), last[block_id].step)
            else:
                says(said, "no sequence has held it")
            cached = model.fold.blocks[block_id].hash is not None
            assert ("still cached" in said) == cached == ("empty" not in said)
            kinds.add(cached)
    assert kinds == {True, False}


def test_a_block_between_owners_or_without_cache_says_so(memory_pressure, stage, ask) -> None:
    model, change = next(
        moment
        for moment in moments(memory_pressure.run(60))
        if isinstance(moment[1], ev.BlockReleased)
    )
    says(ask_why(model, block(change.block_id)), change.block_id, "just lost its last owner")
    says(ask_why(model, block(24)), "no block 24", "24 blocks")
    asks = [ask("r0", "word " * 30, "yes"), ask("r1", "word " * 30, "an answer " * 20)]
    model = folded(stage(asks, enable_prefix_caching=False).run(8))
    held, free = model.fold.sequences["r1.0"].block_table[0], next(iter(model.fold.free_queue))
    for block_id in (held, free):
        says(ask_why(model, block(block_id)), "prefix caching is off")
    says(ask_why(model), "prefix caching is off")


# ---- shared blocks ----

_STEPS = r"in steps? (\d+)(?: to (\d+))?"
_WAYS = {"took": "took it", "found": "found it in the prefix cache", "forked": "w(?:as|ere) forked"}


class Ways:
    """Reference implementation: how and when each sequence got each block of its table."""

    def __init__(self) -> None:
        self.of: dict[str, dict[int, tuple[str, int]]] = {}

    def apply(self, event: ev.Event) -> None:
        match event:
            case ev.BlockAllocated():
                self.of.setdefault(event.seq_id, {})[event.block_id] = ("took", event.step)
            case ev.BlockHit():
                self.of.setdefault(event.seq_id, {})[event.block_id] = ("found", event.step)
            case ev.BlockCopied():
                del self.of[event.seq_id][event.src]
                self.of[event.seq_id][event.dst] = ("took", event.step)
            case ev.RequestForked():
                self.of[event.seq_id] = dict.fromkeys(self.of[event.parent], ("forked", event.step))
            case ev.BlockReleased():
                del self.of[event.seq_id][event.block_id]


@pytest.mark.parametrize("scenario", ["shared_prefix", "samples", "beams"], indirect=True)
def test_each_owner_got_a_shared_block_as_the_answer_says(scenario) -> None:
    ways, checked = Ways(), 0
    for model, change in moments(scenario.run(40)):
        ways.apply(change)
        if not isinstance(change, ev.BlockCopied | ev.RequestForked | ev.BlockHit | ev.StepEnd):
            continue
        for block_id in (at for at, state in enumerate(model.fold.blocks) if state.ref_cnt > 1):
            head, _, said = why_block(model, block_id).partition("): ")
            # In the order in which the sentence names the owners.
            owners = [seq_id for seq_id, _ in model.owners(block_id)]
            says(head, block_id, *map(short, owners), len(owners))
            for way, words in _WAYS.items():
                came = {by: ways.of[by][block_id] for by in owners}
                steps = {by: at for by, (how, at) in came.items() if how == way}
                names = f"(?:^|and ){re.escape(list_names(steps))}"
                found = re.search(f"{names} {words} {_STEPS}", said)
                assert bool(found) == bool(steps), (change, said, steps)
                if found:
                    numbers = {int(number) for number in found.groups() if number}
                    assert numbers == {min(steps.values()), max(steps.values())}
                    checked += 1
    assert checked > 10
