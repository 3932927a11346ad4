"""Decisions become sentences: complete, short, and not one for every block."""

from typing import get_args

from minivllm.events import types as ev
from minivllm.tui.decisions import LOG_LENGTH, DecisionLog, deferral, miss
from minivllm.tui.model import DashboardModel

LEFT_OUT = {ev.StepBegin, ev.StepScheduled, ev.StepEnd, ev.TokenSampled, ev.TextFlushed}


def sentences(model: DashboardModel) -> list[str]:
    return [
        f"{decision.step} {decision.name} " + "".join(text for text, _ in decision.spans())
        for decision in model.log.decisions
    ]


def told(stage, steps: int = 10_000) -> list[str]:
    model = DashboardModel(stage.header)
    for event in stage.run(steps).events:
        model.apply(event)
    return sentences(model)


def test_every_kind_of_event_has_a_sentence_or_a_panel_of_its_own(memory_pressure, shared_prefix) -> None:
    samples = {type(event): event for stage in (memory_pressure, shared_prefix) for event in stage.run().events}
    samples[ev.TextFlushed] = ev.TextFlushed(0, 0, 0.0, "r0.0", "the rest")
    samples[ev.RequestAborted] = ev.RequestAborted(0, 0, 0.0, "r0.0")
    samples[ev.InvariantViolated] = ev.InvariantViolated(0, 0, 0.0, "in use + free = total", "3 + 4 != 8")
    samples[ev.Gap] = ev.Gap(0, 0, 0.0, 7)
    assert set(samples) == set(ev.EVENT_KINDS)
    for kind, event in samples.items():
        log = DecisionLog()
        log.add(event, "r0.0", "a")
        assert len(log.decisions) == (kind not in LEFT_OUT), kind


def test_every_reason_of_the_engine_is_put_into_words() -> None:
    waits = [deferral(reason, 3, 1, 4) for reason in get_args(ev.DeferReason)]
    assert waits[0] == "needs 3 blocks, 1 free"
    assert waits[2] == "all 4 slots taken"
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


def test_a_wait_is_told_once_and_not_at_every_step(shared_prefix) -> None:
    model = DashboardModel(shared_prefix.header)
    events = shared_prefix.run(40).events
    for event in events:
        model.apply(event)
    deferred = [event for event in events if isinstance(event, ev.RequestDeferred)]
    assert len(deferred) > 10
    assert [line for line in sentences(model) if "waits" in line] == ["13 r4 waits: all slots taken"]


def test_the_log_forgets_what_is_long_past(stage, ask) -> None:
    run = stage([ask(f"r{i}", f"question number {i}", f"answer number {i}") for i in range(100)])
    lines = told(run)
    assert len(lines) == LOG_LENGTH
    assert lines[-1].endswith("r99 finishes by itself")
