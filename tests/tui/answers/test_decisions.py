"""Decisions become sentences: complete, short, and not one per block."""

from typing import get_args

from support.tui.shown import missing_from, moments

from minivllm.events import types as ev
from minivllm.tui.state import decisions
from minivllm.tui.state.decisions import DecisionLog, cause_of_preemption, deferral, sentence_of

WITHOUT_A_SENTENCE = {
    ev.StepBegin, ev.StepScheduled, ev.StepEnd, ev.DraftProposed, ev.AttentionMass,
    ev.TokenAttention, ev.TokenExplained, ev.GrammarState, ev.TokensNamed, ev.TokenSampled,
    ev.TextFlushed, ev.ExpertsRouted,
}  # fmt: skip
"""These have their own panel."""


def test_every_kind_of_event_has_a_sentence_or_its_own_panel(memory_pressure, samples, beams):
    assert set(ev.EVENT_KINDS) == decisions.TOLD_KINDS | WITHOUT_A_SENTENCE
    for stage in (memory_pressure, samples, beams):
        for event in {type(event): event for event in stage.run().events}.values():
            log = DecisionLog()
            log.add(event, "r0.0", "a")
            assert len(log.decisions) == (type(event) not in WITHOUT_A_SENTENCE), event


def test_every_reason_of_the_engine_has_its_own_words() -> None:
    waits = [deferral(reason, 3, 1, 4) for reason in get_args(ev.DeferReason)]
    assert missing_from(deferral("token_budget", 40, 22), 40, 22) == []
    assert missing_from(waits[0], 3, 1) == missing_from(deferral("max_num_seqs", 1, 0, 4), 4) == []
    words = [*waits, *(decisions.miss(why) for why in get_args(ev.MissReason))]
    assert len(set(words)) == len(words) and not any("_" in word for word in words)
    for need, free, word in ((3, 1, "3 blocks"), (3, 3, "slot"), (0, 5, "failed")):
        assert word in cause_of_preemption(ev.RequestPreempted(0, 0, 0.0, "b", "a", need, free, 0))


def test_a_preemption_names_its_beneficiary_and_an_eviction_its_owner(memory_pressure) -> None:
    lines = told(memory_pressure)
    for event in (e for e in memory_pressure.events if isinstance(e, ev.RequestPreempted)):
        victim, whom = event.seq_id.removesuffix(".0"), event.victim_of.removesuffix(".0")
        reason = "last in line" if whom == victim else whom  # its own, or the beneficiary's
        facts = (event.step, victim, "preempted", reason, event.need, event.free or "none")
        assert [line for line in lines if not missing_from(line, *facts)], facts
    assert any(" loses " in line and "evicted" in line for line in lines)
    for model, event in moments(memory_pressure):
        if isinstance(event, ev.BlockFreed):
            is_cached = model.fold.blocks[event.block_id].hash is not None
            assert ("still cached" in sentence_of(event)) == is_cached
    assert any("resumes in slot" in line for line in lines)


def test_a_block_is_filled_by_the_sequence_whose_tokens_fill_it(samples) -> None:
    """The last sample writes into the block that its parent was given."""
    filled = set()
    for model, event in moments(samples.run(12)):
        if isinstance(event, ev.BlockHashed):
            name = model.log.decisions[-1].name
            seq_id = name if "." in name else f"{name}.0"
            assert event.block_id in model.fold.sequences[seq_id].block_table
            filled.add(name)
    assert filled == {"r0", "r0.1", "r0.2", "r1"}


def test_a_wait_is_logged_once_and_not_at_every_step(shared_prefix) -> None:
    lines = told(shared_prefix, 40)
    assert sum(isinstance(event, ev.RequestDeferred) for event in shared_prefix.events) > 10
    assert [line.split()[:2] for line in lines if "waits" in line] == [["13", "r4"]]


def told(stage, steps: int = 10_000) -> list[str]:
    """Step, name and words of every decision, although the log keeps only the newest."""
    found = {}
    for model, _ in moments(stage.run(steps)):
        found |= {id(decision): decision for decision in model.log.decisions[-1:]}
    return [
        f"{decision.step} {decision.name} " + "".join(text for text, _ in decision.spans())
        for decision in found.values()
    ]
