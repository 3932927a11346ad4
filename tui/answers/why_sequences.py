"""Why a sequence waits, runs or has ended: one sentence each, for `why`.

`need` and `free` are from the moment when the scheduler deferred the sequence; which sequences hold
the missing blocks is read from the current block tables.
"""

from collections.abc import Iterable, Iterator

from minivllm.events.ledger import SequenceRecord
from minivllm.events.state import ScheduledState, SequenceState
from minivllm.events.types import PASSED_REASONS, DeferReason
from minivllm.text import plural, short_name
from minivllm.tui.answers.why_tokens import why_token
from minivllm.tui.state.decisions import PHRASES, deferral, phrase, whose_need
from minivllm.tui.state.drafts import DrawnDraft
from minivllm.tui.state.explanations import piece_of
from minivllm.tui.state.model import DashboardModel

_NAMED = 4
"""Maximum number of names in a sentence."""


def why_sequence(model: DashboardModel, seq_id: str, *, is_race: bool = False) -> str:
    sequence, record = model.fold.sequences.get(seq_id), model.ledger.sequences.get(seq_id)
    if sequence is None:
        return _ended(model, seq_id, is_race)
    if sequence.status == "RUNNING":
        return _running(model, seq_id, sequence) + _newest_token(model, seq_id, sequence)
    return _waiting(model, seq_id, sequence, record)


def reason_to_wait(model: DashboardModel, reason: DeferReason, need: int, free: int) -> str:
    """A deferral's reason, to follow the sequence's name in a sentence."""
    key = f"waits.{reason}"
    if reason == "token_budget" and free:
        key += ".free"
    if key not in PHRASES:
        return f"waits: {deferral(reason, need, free)}"
    return phrase(key, need=need, free=free, limit=model.max_num_seqs)


def list_names(seq_ids: Iterable[str]) -> str:
    names = [short_name(seq_id) for seq_id in seq_ids]
    if len(names) > _NAMED:
        names = [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1:,} more"]
    if len(names) < 2:
        return names[0] if names else "no sequence"
    return f"{', '.join(names[:-1])} and {names[-1]}"


# ---- waiting ----


def _waiting(
    model: DashboardModel, seq_id: str, sequence: SequenceState, record: SequenceRecord | None
) -> str:
    waiting = model.fold.waiting
    position, name = waiting.index(seq_id), short_name(seq_id)
    considered = model.considered()
    first = waiting[considered]
    own = sequence.deferred
    if sequence.slot is not None:
        return f"{name} {_loads(model, seq_id, sequence)}; the requests behind it may pass."
    if position <= considered and own is not None and own[0] in PASSED_REASONS:
        return f"{name} {reason_to_wait(model, *own)}; the requests behind it may pass."
    kept_out = model.fold.sequences[first].deferred
    reason = "" if kept_out is None else reason_to_wait(model, *kept_out)
    said = [*_preempted(sequence, record, name)]
    if position > considered:
        who = short_name(first)
        said += [f"{who} {reason}" if reason else f"The scheduler has not considered {who} yet"]
        said += [f"{name} is number {position + 1:,} in the queue, behind it"]
    elif reason:
        passed = f"; {considered:,} before it wait for something else" if considered else ""
        said += [f"{name} {reason}{_holders(model, sequence)}{passed}"]
    elif model.fold.step == 0:
        said += ["No step has been planned yet", f"The first one will consider {name}"]
    else:
        step = model.fold.step
        is_new = record is not None and record.arrived_step == step
        if is_new:
            said += [f"{name} arrived after step {step:,} was planned"]
        if is_new or model.steps.current is None:
            said += ["The next step will consider it"]
        else:
            said += [f"Step {step:,} is in progress, and has not decided about {name} so far"]
    return f"{'. '.join(said)}."


def _loads(model: DashboardModel, seq_id: str, sequence: SequenceState) -> str:
    """Why a sequence waits that has a slot: its blocks are on their way from another memory."""
    why = "has loaded its blocks, and waits for a token of the budget"
    if (load := model.fold.loads.get(seq_id)) is not None:
        why = phrase("waits.waiting_for_remote_kvs", need=len(load.block_ids))
    return f"{why}. It owns {plural(len(sequence.block_table), 'block')} and slot {sequence.slot}"


def _holders(model: DashboardModel, sequence: SequenceState) -> str:
    """Which running sequences hold the blocks or slots that this waiting sequence needs."""
    fold = model.fold
    if not fold.running or sequence.deferred is None:
        return ""
    if sequence.deferred[0] in ("max_num_seqs", "static_batch"):
        return f": {list_names(fold.running)} {'run' if len(fold.running) > 1 else 'runs'}"
    if sequence.deferred[0] not in ("no_blocks", "no_contiguous_run", "preempted_this_step"):
        return ""
    tables = {holder: fold.sequences[holder].block_table for holder in fold.running}
    named = sorted(tables, key=lambda holder: len(tables[holder]), reverse=True)[:_NAMED]
    held = ", ".join(f"{short_name(holder)} holds {len(tables[holder]):,}" for holder in named)
    all_held = [block_id for holder in named for block_id in tables[holder]]
    shared = " (shared ones counted for each)" if len(set(all_held)) < len(all_held) else ""
    return f"; {held} of {plural(model.header.num_usable_blocks, 'block')}{shared}"


def _preempted(sequence: SequenceState, record: SequenceRecord | None, name: str) -> Iterator[str]:
    if sequence.status != "PREEMPTED":
        return
    if record is None or record.preemption is None:
        yield f"{name} was preempted"
    else:
        step = record.preemption.step
        yield f"{name} was preempted in step {step:,}: {whose_need(record.preemption)}"
    yield (
        f"Its {plural(sequence.num_tokens, 'token')} must be recomputed, except those still in"
        " the cache"
    )


# ---- running ----


def _running(model: DashboardModel, seq_id: str, sequence: SequenceState) -> str:
    fold, name = model.fold, short_name(seq_id)
    before = 0
    for item in fold.scheduled:
        if item.seq_id == seq_id:
            return f"{name} {_got(model, sequence, item, fold.budget - before)}."
        before += item.num_tokens
    record = model.ledger.sequences.get(seq_id)
    if record is not None and record.is_fork and record.phases[0].step == fold.step:
        return (
            f"{name} was forked in step {fold.step:,} and used none of its budget: it took"
            " over its parent's computed tokens."
        )
    none = f"{name} got no token in step {fold.step:,}"
    missing = sequence.num_tokens - sequence.num_computed_tokens
    if missing <= 0:
        # With asynchronous scheduling, vLLM plans before it knows the tokens of the step before.
        what = "the token of the step before" if model.header.source else "a preempted sibling"
        tokens = plural(sequence.num_tokens, "token")
        return f"{none}: all its {tokens} are computed, and it waits for {what}."
    if before >= fold.budget:
        return f"{none}: the sequences scheduled before it used up the budget of {fold.budget:,}."
    all_tokens, are = plural(sequence.num_tokens, "token"), "is" if missing == 1 else "are"
    return f"{none} so far: {missing:,} of its {all_tokens} {are} not computed yet."


def _newest_token(model: DashboardModel, seq_id: str, sequence: SequenceState) -> str:
    """Why the sequence got its newest token, or what its next one can be, if explained."""
    event = model.explanations.of(seq_id)
    if event is None or event.position < sequence.num_tokens - 1:
        return ""
    if event.token_id is None:
        which = "next token"
    elif event.step == model.fold.step:
        which = "newest token"
    else:  # this step has not sampled yet
        which = f"last token, of step {event.step:,}"
    return f" Its {which}: {why_token(model, event)}."


def _got(model: DashboardModel, sequence: SequenceState, item: ScheduledState, left: int) -> str:
    """Why a sequence got this many tokens. left: the budget that was left at its turn."""
    got = f"got {plural(item.num_tokens, 'token')} in step {model.fold.step:,}"
    if item.kind == "decode":
        if item.draft_token_ids:
            return f"{got}: its newest one and {why_drafts(model, item)}"
        return (
            f"{got}: its first {item.num_computed_tokens:,} tokens were computed before,"
            " and a decode computes only the newest one"
        )
    start, reaches = item.num_computed_tokens, item.num_computed_tokens + item.num_tokens
    num_cached = sequence.num_cached_tokens
    cached = f" ({num_cached:,} came from the cache)" if num_cached else ""
    # After the last known token's chunk, a token is sampled: `num_tokens` may include it.
    if item.num_tokens < left and reaches >= sequence.num_tokens - 1:
        return (
            f"{got}: all that it needed after the first {start:,}{cached}; {left:,} of the"
            f" budget of {model.fold.budget:,} were left for it"
        )
    return (
        f"{got} because no more of the budget of {model.fold.budget:,} was left at its"
        f" turn: {reaches:,} of its {plural(sequence.num_tokens, 'token')} are computed"
        f" now{cached}"
    )


# ---- ended ----


def _ended(model: DashboardModel, seq_id: str, is_race: bool) -> str:
    name = short_name(seq_id)
    done = next((done for done in reversed(model.fold.history) if done.seq_id == seq_id), None)
    if done is None:
        return (
            f"{name} is not known at step {model.fold.step:,}: it arrives later, was a"
            " pruned beam, or ended long ago."
        )
    when = f"in step {done.step:,} with {plural(done.num_tokens, 'token')}, including its prompt"
    if is_race:
        recorded = "as long as in the recording, or up to its limit if it had not ended there"
        return f"{name} ended {when}: a race writes each answer {recorded}."
    key = f"end.{done.reason}"
    if key not in PHRASES:
        return f"{name} ended {when}, for a reason that this version does not know."
    return f"{name} {phrase(key, when=when)}."


def why_drafts(model: DashboardModel, item: ScheduledState) -> str:
    """Where a sequence's drafts come from, and which of them were right.

    item: the sequence's share of the step, with drafts
    """
    said = plural(len(item.draft_token_ids), "draft")
    draft = model.drafts.current(item.seq_id, model.fold.step)
    if draft is None:  # the recording begins inside this step
        return said
    said += _source(model, draft)
    if draft.num_accepted is None:
        return f"{said}; the step will verify them: a draft is right if the model draws it, too"
    own = piece_of(model.fold, draft.token_id)
    if not draft.rejected:
        right = "it was right" if len(draft.token_ids) == 1 else "all were right"
        if draft.forced:
            return f"{said}; {right}, as the grammar allows nothing else, and {own} came on top"
        return f"{said}; {right}, because the model drew the same, and {own} came on top"
    right = f"{draft.num_accepted:,} of them {'was' if draft.num_accepted == 1 else 'were'} right"
    wrong = piece_of(model.fold, draft.rejected[0])
    after = plural(len(draft.rejected) - 1, "draft")
    behind = f"; {after} behind it had followed a wrong token" if len(draft.rejected) > 1 else ""
    return (
        f"{said}; {right if draft.num_accepted else 'none was right'}: instead of {wrong} the model"
        f" drew {own}{behind}"
    )


def _source(model: DashboardModel, draft: DrawnDraft) -> str:
    if draft.source != "ngram" or draft.match is None or not draft.match_length:
        whose = {"draft_model": " of the draft model", "grammar": " that the grammar forces"}
        return whose.get(draft.source, "")
    last = plural(draft.match_length, "token")
    return (
        f", which followed its last {last} before, at position {draft.match + draft.match_length:,}"
    )
