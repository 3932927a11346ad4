"""`why`: one sentence, with numbers, about an item (key w).

The item is a sequence (`why_sequences`), a block, a step or an event. If nothing is
selected, the sentence is about the most interesting fact of the moment. In a recording, the item
may not exist yet, or its history may already be dropped; then the sentence says so.
"""

from minivllm.text import clean, plural, short_name
from minivllm.tui.answers.why_sequences import list_names, reason_to_wait, why_sequence
from minivllm.tui.answers.why_waited import with_wait
from minivllm.tui.draw.selection import Target
from minivllm.tui.state.decisions import experts_read, whose_need
from minivllm.tui.state.histories import STEPS_KEPT, StepRecord
from minivllm.tui.state.model import DashboardModel

_NEARLY_FULL = 0.1
"""Share of free blocks below which the pool counts as nearly full."""


def why(model: DashboardModel, target: Target | None, *, is_race: bool = False) -> str:
    """is_race: the recording says how long each answer is"""
    if target is None:
        return _of_the_moment(model)
    match target.kind:
        case "sequence":
            said = why_sequence(model, target.key, is_race=is_race)
            return with_wait(model, target.key, said)
        case "token":
            return why_sequence(model, target.key)
        case "block":
            return why_block(model, target.key)
        case "host":
            return why_host_block(model, target.key)
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
    back = model.fold.step - step
    ago = f", {plural(back, 'step')} back," if back else ""
    used = (
        f"Step {step:,}{ago} scheduled {record.used:,} of"
        f" {plural(record.budget, 'token')} ({record.decode_tokens:,} decode,"
        f" {record.prefill_tokens:,} prefill{_drafts(record)})"
    )
    experts = model.experts
    said = f"{used}{_preempted_in(record)}; {_why_left_over(model, record)}."
    if experts is None or experts.step != step:
        return said
    return f"{said} It read {experts_read(experts)} experts."


def _drafts(record: StepRecord) -> str:
    if not record.draft_tokens:
        return ""
    return f", {plural(record.draft_tokens, 'draft')} of which {record.num_accepted:,} were right"


def _preempted_in(record: StepRecord) -> str:
    victims = [
        f"preempted {short_name(victim.seq_id)} because {whose_need(victim)}"
        for victim in record.preempted
    ]
    return f" and {', and '.join(victims)}" if victims else ""


def _why_left_over(model: DashboardModel, record: StepRecord) -> str:
    unused = record.budget - record.used
    if record.deferred is None:
        if not unused:
            return "the budget was used up, and no sequence was left waiting"
        return f"{unused:,} were left because no sequence was waiting"
    seq_id, reason, need, free = record.deferred
    because = (
        f"because {short_name(seq_id)}, the first in the queue,"
        f" {reason_to_wait(model, reason, need, free)}"
    )
    if not unused:
        return f"the budget was used up, and no other sequence was admitted {because}"
    return f"{unused:,} were left {because}"


def _why_event(model: DashboardModel, seq: int) -> str:
    decision = next((it for it in reversed(model.log.decisions) if it.seq == seq), None)
    if decision is None:
        return f"Event {seq:,} is none of the last decisions; s shows the code that emitted it."
    said = "".join(text for text, _ in decision.spans())
    name = f"{decision.name} " if decision.name else ""
    by = model.header.source
    code = f"minivllm's rule for it; {by} decided" if by else "the code that decided it"
    return f"In step {decision.step:,} {name}{said} (event {seq:,}); s shows {code}."


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
        return with_wait(model, fold.waiting[0], why_sequence(model, fold.waiting[0]))
    free, total = len(fold.free_queue), model.header.num_usable_blocks
    reserves = model.header.config.get("kv_cache_allocator") == "contiguous"
    if len(fold.running) > 1 and free <= total * _NEARLY_FULL and not reserves:
        return (
            f"{free:,} of {plural(total, 'block')} are free and"
            f" {len(fold.running):,} sequences run: if one needs more blocks than that, the"
            " scheduler preempts a sequence."
        )
    if fold.running:
        asked = plural(counters.prefix_cache_queries, "prompt token")
        cache = (
            f"the prefix cache held {counters.prefix_cache_hits:,} of the {asked} looked up so far"
        )
        if not model.header.enable_prefix_caching:
            cache = "prefix caching is off"
        if reserves:
            cache = "each sequence has reserved all that it may need, so none is preempted"
        return (
            f"{plural(len(fold.running), 'running sequence')} and none waiting: {free:,} of"
            f" {plural(total, 'block')} are free, and {cache}."
        )
    ended = counters.finished_requests + counters.aborted_requests
    return (
        f"{clean(model.header.model_and_weights)} is idle at step {fold.step:,}: no sequence is"
        f" running or waiting, and {plural(ended, 'request')} {'has' if ended == 1 else 'have'}"
        f" ended."
    )


def why_block(model: DashboardModel, block_id: int) -> str:
    blocks = model.fold.blocks
    if not 0 <= block_id < len(blocks):
        return (
            f"There is no block {block_id}: the pool has {plural(len(blocks), 'block')},"
            " and the first is 0."
        )
    if block_id < model.header.reserved_blocks:
        return f"Block {block_id} is vLLM's null block: no sequence ever gets it."
    block = blocks[block_id]
    if _is_leased(model, block_id) and not model.owners(block_id):
        return f"Block {block_id} is kept until another engine has read it, or its lease is over."
    if block.ref_cnt > 1:
        return _shared(model, block_id)
    if block.ref_cnt == 1:
        return _held(model, block_id)
    if block_id not in model.fold.free_queue:
        return (
            f"Block {block_id} has just lost its last owner: an event soon puts it on the"
            " free queue."
        )
    return _cached(model, block_id) if block.hash is not None else _empty(model, block_id)


def _is_leased(model: DashboardModel, block_id: int) -> bool:
    return any(block_id in kept for kept in model.fold.leases.values())


def _held(model: DashboardModel, block_id: int) -> str:
    owners = model.owners(block_id)
    if not owners:
        return (
            f"Block {block_id} is in use, but the block table that holds it is not known at"
            " this moment."
        )
    (seq_id, logical), size = owners[0], model.header.block_size
    written = model.num_written(block_id, owners)
    since = _taken(model, seq_id, block_id)
    if model.fold.blocks[block_id].hash is not None:
        use = "it is full and has a hash, so a prompt with the same beginning can share it"
    elif not model.header.enable_prefix_caching:
        use = "prefix caching is off, so no other sequence can find it"
    else:
        use = "it has no hash yet, so no other sequence can find it"
    return (
        f"Block {block_id} is held by {short_name(seq_id)} alone, as entry {logical:,} of its block"
        f" table{since}: {written:,} of {plural(size, 'token')} are written, and {use}."
    )


def _taken(model: DashboardModel, seq_id: str, block_id: int) -> str:
    """When and how this sequence got the block; empty if that has been forgotten."""
    step = _hit_in(model, seq_id, block_id)
    if step is not None:
        return f", found in the prefix cache in step {step:,}"
    age = model.ages.blocks[block_id]
    # Do not write that this sequence took the block: a forked sample shares its parent's blocks.
    return "" if age is None or age.born is None else f", in use since step {age.born:,}"


def _shared(model: DashboardModel, block_id: int) -> str:
    owners = [seq_id for seq_id, _ in model.owners(block_id)]
    count = model.fold.blocks[block_id].ref_cnt
    ways: dict[str, dict[str, int]] = {
        "took it": {},
        "found it in the prefix cache": {},
        "forked": {},
    }
    for seq_id in owners:
        if (way := _way_to(model, seq_id, block_id)) is not None:
            ways[way[0]][seq_id] = way[1]
    reasons = []
    for way, steps in ways.items():
        were = f"{'was' if len(steps) == 1 else 'were'} " if way == "forked" else ""
        if steps:
            first, last = min(steps.values()), max(steps.values())
            when = f"in step {first:,}" if first == last else f"in steps {first:,} to {last:,}"
            reasons.append(f"{list_names(steps)} {were}{way} {when}")
    because = ", and ".join(reasons) or "how they got it is no longer in memory"
    lease = " and a lease of another engine" if _is_leased(model, block_id) else ""
    return (
        f"Block {block_id} is shared by {list_names(owners)}{lease} (reference count {count:,}):"
        f" {because}; {_what_sharing_costs(model, block_id)}."
    )


def _way_to(model: DashboardModel, seq_id: str, block_id: int) -> tuple[str, int] | None:
    """How and in which step this sequence got the block; None if that has been forgotten."""
    if (step := _hit_in(model, seq_id, block_id)) is not None:
        return "found it in the prefix cache", step
    age, record = model.ages.blocks[block_id], model.ledger.sequences.get(seq_id)
    if record is None:
        return None
    born = None if age is None or age.taken_by != seq_id else age.born
    # A preemption frees all blocks, those that were taken before it and those of a fork.
    preempted = record.preemption
    if born is not None and (preempted is None or preempted.step < born):
        return "took it", born
    return ("forked", record.phases[0].step) if record.is_fork and preempted is None else None


def _what_sharing_costs(model: DashboardModel, block_id: int) -> str:
    size, written = model.header.block_size, model.num_written(block_id, model.owners(block_id))
    if written == size:
        return f"it is full, so its {plural(size, 'token')} are stored once for all of them"
    return (
        f"{written:,} of its {plural(size, 'token')} are written, and the next"
        " sequence that writes into it copies it first"
    )


def _hit_in(model: DashboardModel, seq_id: str, block_id: int) -> int | None:
    """The step in which this sequence hit the block in the prefix cache; None if forgotten."""
    lookup = model.lookups.of(seq_id)
    found = lookup is not None and any(hit[1] == block_id for hit in lookup.hits)
    return lookup.step if found else None


def _cached(model: DashboardModel, block_id: int) -> str:
    is_saved = model.fold.blocks[block_id].hash in model.ages.host_owners
    but = ", but not the host's copy of it" if is_saved else ""
    return (
        f"Block {block_id} is free but still cached: {_left(model, block_id)}its content is"
        f" unchanged, so a prompt with the same beginning can reuse it; {_place(model, block_id)},"
        f" and allocating it evicts that content{but}."
    )


def _empty(model: DashboardModel, block_id: int) -> str:
    where = _place(model, block_id)
    if model.ages.blocks[block_id] is None:
        return (
            f"Block {block_id} is empty: no sequence has held it in this recording so far; {where}."
        )
    caches = model.header.enable_prefix_caching
    why = "its content had no hash" if caches else "prefix caching is off"
    return (
        f"Block {block_id} is empty: {_left(model, block_id)}{why}, so no lookup can find"
        f" it; {where}."
    )


def _place(model: DashboardModel, block_id: int) -> str:
    return f"it is {_nth(block_id, list(model.fold.free_queue))} in the free queue"


def _nth(item: int, queue: list[int]) -> str:
    number = queue.index(item) + 1
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    ending = "th" if number % 100 in (11, 12, 13) else ending
    return f"the {number:,}{ending} of {len(queue):,}"


def _left(model: DashboardModel, block_id: int) -> str:
    age = model.ages.blocks[block_id]
    if age is None or age.last_owner is None:
        return ""
    return f"{short_name(age.last_owner)} held it last, until step {age.touched:,}, and "


def why_host_block(model: DashboardModel, host_block: int) -> str:
    """Whose copy a block of the second memory has, who loads it, and when it is lost."""
    fold, name = model.fold, f"The host's block {host_block:,}"
    if host_block >= len(fold.host_blocks):
        return f"{name} does not exist: the host's memory has {len(fold.host_blocks):,} here."
    content = fold.host_blocks[host_block].hash
    if content is None:
        return f"{name} is empty."
    owner = model.ages.host_owners.get(content)
    whose = f" of {short_name(owner)}" if owner else ""
    said = f"{name} is a copy of a block{whose} (hash {clean(content)[:12]})"
    if readers := [seq for seq, load in fold.loads.items() if host_block in load.host_blocks]:
        return f"{said}: it is being loaded for {list_names(readers)}, so it cannot be reused now."
    queue = f"it is {_nth(host_block, list(fold.host_queue))} to be reused"
    if any(block.hash == content for block in fold.blocks):
        use = "the KV cache has it, too, so a prompt with the same beginning hits it there"
    else:
        use = "only the host has it, so a prompt with the same beginning loads it"
    return f"{said}: {use}; {queue}."
