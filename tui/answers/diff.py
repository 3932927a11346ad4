"""What changed between two moments, as lines of text, grouped by subject.

Compares two folded states, not the events between them: a block that was taken and freed again is
not reported. But a sequence that arrived and ended in between is reported. Two requests with the
same name that arrived at different times are different requests.

Every difference appears once. A test applies the lines to the first state and gets the second one.
"""

from collections import defaultdict
from collections.abc import Iterator

from minivllm.events.state import BlockState, Counters, ScheduledState, SequenceState
from minivllm.text import clean, id_ranges, plural, short_name
from minivllm.tui.state.decisions import deferral
from minivllm.tui.state.model import DashboardModel

_MOST_NAMES = 12


def difference(a: DashboardModel, b: DashboardModel) -> list[str]:
    sections = (
        ("Requests and sequences", [*_sequences(a, b), *_came_and_went(a, b)]),
        ("Blocks", [*_blocks(a, b)]),
        ("Queues", [*_queues(a, b)]),
        ("Counters", [*_counters(a.fold.counters, b.fold.counters)]),
    )
    lines = [_time(a, b)]
    for title, found in sections:
        if found:
            lines += ["", title, *(f"  {line}" for line in found)]
    if len(lines) == 1:
        lines.append("Nothing else differs.")
    return lines


def _time(a: DashboardModel, b: DashboardModel) -> str:
    steps, seconds = b.fold.step - a.fold.step, b.fold.t - a.fold.t
    if not steps and not seconds:
        return "At the same time."
    time = f" and {abs(seconds):.3f} seconds" if a.pace.is_timed else ""
    return f"{plural(abs(steps), 'step')}{time} {'earlier' if (steps or seconds) < 0 else 'later'}"


# ---- sequences ----


def _sequences(a: DashboardModel, b: DashboardModel) -> Iterator[str]:
    old, new = a.fold.sequences, b.fold.sequences
    for seq_id in dict.fromkeys([*old, *new]):
        name = short_name(seq_id)
        if seq_id in old and seq_id in new and _is_same_request(a, b, seq_id):
            if old[seq_id] != new[seq_id]:
                yield f"{name}: {', '.join(_changes(old[seq_id], new[seq_id]))}"
            continue
        if seq_id in old:
            yield f"{name}: ended{_reason(b, seq_id)}, had {_summary(old[seq_id])}"
        if seq_id in new:
            yield (
                f"{name}: {'arrived again' if seq_id in old else 'arrived'}, has"
                f" {_summary(new[seq_id])}"
            )


def _is_same_request(a: DashboardModel, b: DashboardModel, seq_id: str) -> bool:
    old, new = (
        a.fold.requests[a.fold.sequences[seq_id].request_id],
        b.fold.requests[b.fold.sequences[seq_id].request_id],
    )
    return old.arrival_time == new.arrival_time


def _reason(b: DashboardModel, seq_id: str) -> str:
    record = b.ledger.sequences.get(seq_id)
    return f" ({clean(record.end.reason)})" if record and record.end else ""


def _summary(sequence: SequenceState) -> str:
    where = (
        sequence.status if sequence.slot is None else f"{sequence.status} in slot {sequence.slot}"
    )
    blocks = f", blocks {id_ranges(sequence.block_table)}" if sequence.block_table else ""
    preempted = (
        f", {plural(sequence.num_preemptions, 'preemption')}" if sequence.num_preemptions else ""
    )
    tokens = (
        f"{sequence.num_prompt_tokens} prompt and {len(sequence.output_token_ids)} output tokens"
    )
    return f"{tokens}, {sequence.num_computed_tokens} computed{preempted}, {where}{blocks}"


def _changes(old: SequenceState, new: SequenceState) -> Iterator[str]:
    if old.status != new.status:
        yield f"{old.status} to {new.status}"
    if new.num_preemptions != old.num_preemptions:
        yield f"{plural(new.num_preemptions - old.num_preemptions, 'preemption')} more"
    if old.slot != new.slot:
        yield f"slot {_or_none(old.slot)} to {_or_none(new.slot)}"
    if old.output_token_ids != new.output_token_ids:
        yield _numbers("output tokens", len(old.output_token_ids), len(new.output_token_ids))
    elif old.text != new.text:
        yield "more of its text is visible"
    if old.num_computed_tokens != new.num_computed_tokens:
        yield _numbers("computed", old.num_computed_tokens, new.num_computed_tokens)
    if old.num_cached_tokens != new.num_cached_tokens:
        yield _numbers("cached", old.num_cached_tokens, new.num_cached_tokens)
    yield from _table_changes(old.block_table, new.block_table)
    if old.deferred != new.deferred:
        yield ("no longer waits" if new.deferred is None else f"waits: {deferral(*new.deferred)}")


def _table_changes(old: list[int], new: list[int]) -> Iterator[str]:
    lost, gained = (
        [one for one in old if one not in set(new)],
        [one for one in new if one not in set(old)],
    )
    if lost:
        yield f"lost blocks {id_ranges(lost)}"
    if gained:
        yield f"gained blocks {id_ranges(gained)}"
    if old != new and not lost and not gained:
        yield "its blocks in another order"


def _came_and_went(a: DashboardModel, b: DashboardModel) -> Iterator[str]:
    """Yield a line for each sequence that arrived and ended between the two moments."""
    for name, record in b.ledger.sequences.items():
        if record.end and record.phases[0].t > a.fold.t and name not in a.fold.sequences:
            reason, tokens = clean(record.end.reason), plural(record.num_tokens, "output token")
            yield f"{short_name(name)}: came and went in between ({reason}), with {tokens}"


# ---- blocks ----


def _blocks(a: DashboardModel, b: DashboardModel) -> Iterator[str]:
    groups: dict[str, list[int]] = defaultdict(list)
    for block_id, (old, new) in enumerate(zip(a.fold.blocks, b.fold.blocks, strict=True)):
        for change in _block_changes(old, new):
            groups[change].append(block_id)
    for change in sorted(groups, key=_order):
        yield f"{change}: {id_ranges(groups[change])}"


_WORDS = ("newly used", "freed", "shared by", "newly cached", "evicted", "cached under")


def _block_changes(old: BlockState, new: BlockState) -> Iterator[str]:
    if old.ref_cnt != new.ref_cnt:
        if old.ref_cnt == 0:
            yield "newly used" if new.ref_cnt == 1 else f"newly used by {new.ref_cnt}"
        elif new.ref_cnt == 0:
            yield "freed, was used" if old.ref_cnt == 1 else f"freed, was used by {old.ref_cnt}"
        else:
            yield f"shared by {new.ref_cnt}, was {old.ref_cnt}"
    if (old.hash, old.parent) != (new.hash, new.parent):
        if old.hash is None:
            yield "newly cached"
        elif new.hash is None:
            yield "evicted from the cache"
        else:
            yield "cached under another name"


def _order(change: str) -> tuple[int, str]:
    return next(number for number, word in enumerate(_WORDS) if change.startswith(word)), change


# ---- queues and counters ----


def _queues(a: DashboardModel, b: DashboardModel) -> Iterator[str]:
    for name in ("waiting", "running"):
        old, new = getattr(a.fold, name), getattr(b.fold, name)
        if old != new:
            yield f"{name}: {_names(old)}  to  {_names(new)}"
    old, new = list(a.fold.free_queue), list(b.fold.free_queue)
    if old != new:
        first = [str(queue[0]) if queue else "none" for queue in (old, new)]
        yield f"free queue: {len(old):,} to {len(new):,} blocks, next {first[0]} to {first[1]}"
    if a.fold.budget != b.fold.budget:
        yield _numbers("budget", a.fold.budget, b.fold.budget)
    old, new = _plan(a.fold.scheduled), _plan(b.fold.scheduled)
    if old != new:
        # Leave out the start of each chunk: it is the number of computed tokens minus the chunk's
        # tokens.
        yield f"last plan: {_few(old)}  to  {_few(new)}"


def _counters(old: Counters, new: Counters) -> Iterator[str]:
    for name in Counters.__struct_fields__:
        if getattr(old, name) != getattr(new, name):
            yield _numbers(name.replace("_", " "), getattr(old, name), getattr(new, name))


def _numbers(name: str, old: int, new: int) -> str:
    return f"{name} {old:,} to {new:,} ({new - old:+,})"


def _names(seq_ids: list[str]) -> str:
    return _few([short_name(seq_id) for seq_id in seq_ids])


def _plan(scheduled: list[ScheduledState]) -> list[str]:
    return [
        f"{short_name(item.seq_id)} {item.num_tokens:,} {clean(item.kind)}" for item in scheduled
    ]


def _few(words: list[str]) -> str:
    more = f" and {len(words) - _MOST_NAMES} more" if len(words) > _MOST_NAMES else ""
    return ", ".join(words[:_MOST_NAMES]) + more or "none"


def _or_none(slot: int | None) -> str:
    return "none" if slot is None else str(slot)
