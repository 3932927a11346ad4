"""Decisions become sentences: complete, short, and not one for every block."""

from typing import get_args

from minivllm.events import types as ev
from minivllm.tui.state.decisions import LOG_LENGTH, Decision, DecisionLog, deferral, miss
from minivllm.tui.state.model import DashboardModel

LEFT_OUT = {ev.StepBegin, ev.StepScheduled, ev.StepEnd, ev.AttentionMass, ev.TokenSampled, ev.TextFlushed}


def sentences(decisions: list[Decision]) -> list[str]:
    return [
        f"{decision.step} {decision.name} " + "".join(text for text, _ in decision.spans()) for decision in decisions
    ]


def told(stage, steps: int = 10_000) -> list[str]:
    """All that was ever in the log, which keeps only the last ones."""
    model, found = DashboardModel(stage.header), {}
    for event in stage.run(steps).events:
        model.apply(event)
        found |= {id(decision): decision for decision in model.log.decisions[-1:]}
    return sentences(list(found.values()))


def test_every_kind_of_event_has_a_sentence_or_a_panel_of_its_own(
    memory_pressure, shared_prefix, samples, beams
) -> None:
    stages = (memory_pressure, shared_prefix, samples, beams)
    one_of_each = {type(event): event for stage in stages for event in stage.run().events}
    one_of_each[ev.TextFlushed] = ev.TextFlushed(0, 0, 0.0, "r0.0", "the rest")
    one_of_each[ev.RequestAborted] = ev.RequestAborted(0, 0, 0.0, "r0.0")
    one_of_each[ev.InvariantViolated] = ev.InvariantViolated(0, 0, 0.0, "in use + free = total", "3 + 4 != 8")
    one_of_each[ev.AttentionMass] = ev.AttentionMass(0, 0, 0.0, "r0.0", [0.25, 0.75])
    one_of_each[ev.OptionChanged] = ev.OptionChanged(0, 0, 0.0, "max_num_seqs", 3, 8)
    one_of_each[ev.KernelTraced] = ev.KernelTraced(
        0, 0, 0.0, "r0.0", 0, 0, [], "r0.0 has ended before its next decode."
    )
    one_of_each[ev.Gap] = ev.Gap(0, 0, 0.0, 7)
    assert set(one_of_each) == set(ev.EVENT_KINDS)
    for kind, event in one_of_each.items():
        log = DecisionLog()
        log.add(event, "r0.0", "a")
        assert len(log.decisions) == (kind not in LEFT_OUT), kind


def test_every_reason_of_the_engine_is_put_into_words() -> None:
    waits = [deferral(reason, 3, 1, 4) for reason in get_args(ev.DeferReason)]
    assert waits[0] == "needs 3 blocks, 1 free"
    assert waits[2] == "needs 3 slots, 1 free"
    assert deferral("max_num_seqs", 1, 0, 4) == "all 4 slots taken"
    misses = [miss(why) for why in get_args(ev.MissReason)]
    for words in (*waits, *misses):
        assert "_" not in words
    assert len({*waits, *misses}) == len(waits) + len(misses)


def test_the_blocks_of_one_prompt_become_one_sentence(shared_prefix) -> None:
    lines = told(shared_prefix, 1)
    assert "1 r0 takes 0-6" in lines
    assert "1 r1 reuses 0-5, already computed" in lines
    assert "1 r1 misses its block 6: never seen" in lines
    assert "1 r1 enters slot 1, 48 tokens cached" in lines


def test_a_preemption_says_for_whom_and_an_eviction_whose(memory_pressure) -> None:
    lines = told(memory_pressure)
    assert any("is preempted: r" in line and "needs 1 block, 0 free" in line for line in lines)
    assert any(" loses " in line and line.endswith(", evicted") for line in lines)
    assert any("resumes in slot" in line for line in lines)


def test_samples_fork_off_and_all_but_the_last_copy_the_part_full_block(samples) -> None:
    lines = told(samples, 2)
    assert [line for line in lines if "forks" in line] == [
        "1 r0.1 forks off r0, blocks shared",
        "1 r0.2 forks off r0, blocks shared",
    ]
    copies = [line for line in lines if "copies" in line]
    assert [line.split()[1:6] for line in copies] == [
        ["r0", "copies", "shared", "block", "7"],
        ["r0.1", "copies", "shared", "block", "7"],
    ]


def test_a_pruned_beam_is_told_by_its_own_name_and_letter(beams) -> None:
    model = DashboardModel(beams.header)
    pruned = []
    for event in beams.run(12).events:
        letter = model.letter(event.seq_id) if isinstance(event, ev.BeamPruned) else None
        model.apply(event)
        if letter is not None:
            decision = model.log.decisions[-1]
            assert (decision.name, decision.letter) == (event.seq_id.removesuffix(".0"), letter)
            assert "".join(text for text, _ in decision.spans()) == "is pruned: others are better"
            pruned.append(letter)
    assert len(set(pruned)) == len(pruned) >= 5


def test_a_block_is_filled_by_the_one_whose_tokens_fill_it_whoever_had_it_first(samples) -> None:
    """The last sample writes into the block that its parent was given."""
    model, filled = DashboardModel(samples.header), set()
    for event in samples.run(12).events:
        model.apply(event)
        if isinstance(event, ev.BlockHashed):
            decision = model.log.decisions[-1]
            table = next(
                s.block_table for n, s in model.fold.sequences.items() if n.removesuffix(".0") == decision.name
            )
            assert event.block_id in table
            filled.add(decision.name)
    assert filled == {"r0", "r0.1", "r0.2", "r1"}


def test_a_wait_is_told_once_and_not_at_every_step(shared_prefix) -> None:
    model = DashboardModel(shared_prefix.header)
    events = shared_prefix.run(40).events
    for event in events:
        model.apply(event)
    deferred = [event for event in events if isinstance(event, ev.RequestDeferred)]
    assert len(deferred) > 10
    assert [line for line in sentences(model.log.decisions) if "waits" in line] == ["13 r4 waits: all slots taken"]


def test_the_log_forgets_what_is_long_past(stage, ask) -> None:
    run = stage([ask(f"r{i}", f"question number {i}", f"answer number {i}") for i in range(100)])
    model = DashboardModel(run.header)
    for event in run.run().events:
        model.apply(event)
    lines = sentences(model.log.decisions)
    assert len(lines) == LOG_LENGTH
    assert lines[-1].endswith("r99 finishes by itself")
