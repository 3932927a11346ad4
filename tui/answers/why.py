"""`why`: one sentence, with numbers, about the last selected item (key w).

The item is a sequence (`why_sequences`), a block (`why_blocks`), a step or an event. If nothing is
selected, the sentence is about the most interesting fact of the moment. In a recording, the item
may not exist yet, or its history may already be dropped; then the sentence says so.
"""

from minivllm.text import clean, plural, short_name
from minivllm.tui.answers.why_blocks import why_block
from minivllm.tui.answers.why_sequences import reason_to_wait, why_sequence
from minivllm.tui.draw.selection import Selection
from minivllm.tui.state.decisions import cause_of_preemption
from minivllm.tui.state.histories import STEPS_KEPT, StepRecord
from minivllm.tui.state.model import DashboardModel

_NEARLY_FULL = 0.1
"""Share of free blocks below which the pool counts as nearly full."""


def why(model: DashboardModel, selection: Selection) -> str:
    target = selection.last
    if target is None:
        return _of_the_moment(model)
    match target.kind:
        case "sequence":
            return why_sequence(model, target.key)
        case "token":
            return why_sequence(model, selection.seq_id)
        case "block":
            return why_block(model, target.key)
        case "step":
            return why_step(model, target.key)
    return _why_event(model, target.key)


def why_step(model: DashboardModel, step: int) -> str:
    if model.steps.current is not None and model.steps.current.step == step:
        return f"Step {step:,} is in progress; how it used its budget is known when it ends."
    record = next((record for record in reversed(model.steps.records) if record.step == step), None)
    if record is None:
        return (
            f"Step {step:,} is not in memory: it is later than this moment, or none of the"
            f" last {STEPS_KEPT} steps."
        )
    used = (
        f"Step {step:,} scheduled {record.used:,} of"
        f" {plural(record.budget, 'token')} ({record.decode_tokens:,} decode,"
        f" {record.prefill_tokens:,} prefill{_drafts(record)})"
    )
    return f"{used}{_preempted_in(record)}; {_why_left_over(model, record)}."


def _drafts(record: StepRecord) -> str:
    if not record.draft_tokens:
        return ""
    return f", {plural(record.draft_tokens, 'draft')} of which {record.num_accepted:,} were right"


def _preempted_in(record: StepRecord) -> str:
    victims = [
        f"preempted {short_name(one.seq_id)} because"
        f" {'it' if one.victim_of == one.seq_id else short_name(one.victim_of)}"
        f" {cause_of_preemption(one.need, one.free)}"
        for one in record.preempted
    ]
    return f" and {', and '.join(victims)}" if victims else ""


def _why_left_over(model: DashboardModel, record: StepRecord) -> str:
    unused = record.budget - record.used
    if record.deferred is None:
        return (
            "the budget was used up, and no sequence was left waiting"
            if not unused
            else f"{unused:,} were left because no sequence was waiting"
        )
    seq_id, reason, need, free = record.deferred
    because = (
        f"because {short_name(seq_id)}, the first in the queue,"
        f" {reason_to_wait(model, reason, need, free)}"
    )
    if not unused:
        return f"the budget was used up, and no other sequence was admitted {because}"
    return f"{unused:,} were left {because}"


def _why_event(model: DashboardModel, seq: int) -> str:
    decision = next(
        (decision for decision in reversed(model.log.decisions) if decision.seq == seq), None
    )
    if decision is None:
        return f"Event {seq:,} is none of the last decisions; s shows the code that emitted it."
    said = "".join(text for text, _ in decision.spans())
    name = f"{decision.name} " if decision.name else ""
    return (
        f"In step {decision.step:,} {name}{said} (event {seq:,}); s shows the code that decided it."
    )


def _of_the_moment(model: DashboardModel) -> str:
    """The most interesting fact of the moment: the first case below that applies."""
    fold, counters = model.fold, model.fold.counters
    if fold.lost_events:
        return (
            f"{plural(fold.lost_events, 'event')} are missing here, so the picture stays at"
            f" step {fold.step:,}."
        )
    if counters.invariant_violations:
        violations = plural(counters.invariant_violations, "invariant violation")
        return (
            f"The engine has reported {violations}, so it has a bug: the events name the"
            " broken rule."
        )
    record = model.steps.records[-1] if model.steps.records else None
    if record is not None and record.preempted:
        return why_step(model, record.step)
    if fold.waiting:
        return why_sequence(model, fold.waiting[0])
    free = len(fold.free_queue)
    if fold.running and free <= len(fold.blocks) * _NEARLY_FULL:
        return (
            f"{free:,} of {plural(len(fold.blocks), 'block')} are free and"
            f" {_run(len(fold.running))}: if one needs more blocks than that, the scheduler"
            " preempts a sequence."
        )
    if not model.header.enable_prefix_caching:
        return (
            "Prefix caching is off, so none of the"
            f" {plural(counters.prompt_tokens, 'prompt token')} so far came from the cache."
        )
    if fold.running:
        return (
            f"{_run(len(fold.running))} and none wait: {free:,} of"
            f" {plural(len(fold.blocks), 'block')} are free, and the prefix cache held"
            f" {counters.prefix_cache_hits:,} of the"
            f" {plural(counters.prefix_cache_queries, 'prompt token')} looked up so far."
        )
    ended = counters.finished_requests + counters.aborted_requests
    return (
        f"{clean(model.header.model_and_weights)} is idle at step {fold.step:,}: no sequence is"
        f" running or waiting, and {plural(ended, 'request')} {'has' if ended == 1 else 'have'}"
        f" ended."
    )


def _run(count: int) -> str:
    return "1 sequence runs" if count == 1 else f"{count:,} sequences run"
