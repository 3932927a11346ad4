"""`check_rules`: reads a recording event by event, and checks the rules that every engine keeps.

It knows events only, and shares no code with the scheduler or the block pool. Before each event is
applied to a fold, `_RuleWatch` yields a `RuleTest` for each rule that the event puts to the test,
whether the rule is kept or broken. So a comment can also say why a step is right.

    findings = check_rules(reader.header, reader)
    first = next(one for one in findings if not one.kept)     # which step broke which rule
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.text import plural

RULES: Mapping[str, str] = MappingProxyType(
    {
        "budget": "A step computes at most as many tokens as its budget allows.",
        "queue-order": "The first waiting sequence is admitted first, and with `fcfs` a preempted"
        " sequence goes to the front of the queue.",
        "no-admission": "A step that preempts a sequence admits none.",
        "plan-kept": "A sequence that has tokens in the plan of a step is not preempted in this"
        " step.",
        "own-slot": "Each running sequence has a batch slot of its own.",
        "table-room": "A block table has room for every token that is computed.",
        "continue": "A sequence continues exactly where its cached and computed tokens end.",
        "one-writer": "A block that is written has one owner.",
        "sample-last": "A token is sampled only when all tokens before it are computed.",
        "same-hash": "A block gets a hash when it is full; blocks with the same hash hold the same"
        " tokens after the same beginning.",
        "tail-first": "A sequence releases its blocks from the end of its table to the beginning.",
        "last-owner": "A block joins the free queue exactly when its last owner releases it.",
        "head-first": "Only the block at the head of the free queue is handed out, and it loses its"
        " hash.",
    }
)
"""Each rule's name, as in an answer, and the rule."""

ANSWER_STUB = "".join(
    [
        "# The first step that breaks a rule, and the rule's name:\n",
        'step = 0\nrule = ""\n\n# The rules:\n',
        *(f"#   {name:<13} {text}\n" for name, text in RULES.items()),
    ]
)
"""The answer file of every exercise, to be filled in."""


class RuleTest(NamedTuple):
    """One test of a rule by one event."""

    rule: str
    step: int
    kept: bool
    fact: str
    """What the event shows, as a sentence."""


_Test = tuple[str, bool, str]
"""(rule, kept, fact)."""


def check_rules(header: ev.LogHeader, events: Iterable[ev.Event]) -> Iterator[RuleTest]:
    """Yield a finding for each test of a rule, in the order of the events."""
    watch = _RuleWatch(header)
    for event in events:
        for rule, kept, fact in watch.look_at(event):
            yield RuleTest(rule, event.step, kept, fact)


class _RuleWatch:
    def __init__(self, header: ev.LogHeader) -> None:
        self._fold = Fold(header)
        self._size = header.block_size
        self._is_fcfs = header.scheduling_policy == "fcfs"
        self._is_paged = header.config.get("kv_cache_allocator", "paged") == "paged"
        self._used = 0
        """Tokens planned so far in this step."""
        self._has_preempted = False
        self._num_hits: dict[str, int] = {}
        """By sequence: blocks found since it was last without blocks."""
        self._contents: dict[str, list[int]] = {}
        """By hash: the tokens of the block and all tokens before it."""
        self._without_owner: set[int] = set()
        """Blocks whose last owner has just released them."""

    def look_at(self, event: ev.Event) -> Iterator[_Test]:
        if not isinstance(event, ev.BlockReleased | ev.BlockFreed):
            for block_id in self._without_owner:
                fact = f"Block {block_id} has no owner any more, and does not join the free queue."
                yield "last-owner", False, fact
            self._without_owner.clear()
        yield from self._of_plan(event)
        yield from self._of_blocks(event)
        self._fold.apply(event)
        if isinstance(event, ev.BlockReleased) and not self._fold.blocks[event.block_id].ref_cnt:
            self._without_owner.add(event.block_id)

    # ---- the plan of a step ----

    def _of_plan(self, event: ev.Event) -> Iterator[_Test]:
        match event:
            case ev.StepBegin():
                self._used, self._has_preempted = 0, False
            case ev.StepScheduled():
                yield self._spend(event.num_tokens)
                yield from self._computes(event.seq_id, event.num_computed_tokens, event.num_tokens)
            case ev.DraftProposed():
                yield self._spend(len(event.token_ids))
            case ev.TokenSampled(seq_id=name):
                sequence = self._fold.sequences[name]
                num_tokens, computed = sequence.num_tokens, sequence.num_computed_tokens
                fact = f"{name} has {num_tokens} tokens, of which {computed} are computed,"
                yield "sample-last", computed >= num_tokens, f"{fact} and samples the next one."
            case ev.RequestAdmitted() | ev.RequestResumed():
                yield from self._admits(event)
            case ev.RequestPreempted(seq_id=name, position=position):
                self._has_preempted = True
                self._num_hits[name] = 0
                if event.need > 0:  # after an error, sequences that share its blocks leave, too
                    planned = any(share.seq_id == name for share in self._fold.scheduled)
                    state = "already has" if planned else "has no"
                    fact = f"{name} is preempted, and {state} tokens in this step's plan."
                    yield "plan-kept", not planned, fact
                if self._is_fcfs:
                    fact = f"{name} is preempted, and waits at position {position} of the queue."
                    yield "queue-order", position == 0, fact

    def _spend(self, num_tokens: int) -> _Test:
        self._used += num_tokens
        budget = self._fold.budget
        fact = f"{self._used} tokens are planned so far, of a budget of {budget}."
        return "budget", self._used <= budget, fact

    def _computes(self, name: str, start: int, num_tokens: int) -> Iterator[_Test]:
        sequence, end = self._fold.sequences[name], start + num_tokens
        computed, table = sequence.num_computed_tokens, sequence.block_table
        fact = f"{name} has {computed} computed tokens, and continues at position {start}."
        yield "continue", start == computed, fact
        room = len(table) * self._size
        fact = f"{name} computes up to position {end - 1}; its table has room for {room} tokens."
        yield "table-room", end <= room, fact
        first = max(start, sequence.num_cached_tokens)
        for index in range(first // self._size, -(-end // self._size)):
            if first < end and index < len(table):
                owners = self._fold.blocks[table[index]].ref_cnt
                fact = f"{name} writes block {table[index]}, which has {plural(owners, 'owner')}."
                yield "one-writer", owners == 1, fact

    def _admits(self, event: ev.RequestAdmitted | ev.RequestResumed) -> Iterator[_Test]:
        name, fold = event.seq_id, self._fold
        ahead = [
            other
            for other in fold.waiting[: fold.waiting.index(name)]
            if (fold.sequences[other].deferred or [""])[0] != "grammar_not_compiled"
        ]
        first = f"before {ahead[0]}, which is first" if ahead else "as the first of the queue"
        yield "queue-order", not ahead, f"{name} is admitted {first}."
        preempted = "has preempted" if self._has_preempted else "has not preempted anyone"
        fact = f"{name} is admitted in a step that {preempted}."
        yield "no-admission", not self._has_preempted, fact
        taken = {fold.sequences[other].slot: other for other in fold.running}
        owner = f"which {taken[event.slot]} has" if event.slot in taken else "which was free"
        yield "own-slot", event.slot not in taken, f"{name} gets slot {event.slot}, {owner}."
        num_tokens, start = fold.sequences[name].num_tokens, event.num_computed_tokens
        cached = self._num_hits.get(name, 0) * self._size
        is_right = (event.num_cached_tokens, start) == (cached, min(cached, num_tokens - 1))
        fact = f"{name} found {plural(cached, 'token')} in the prefix cache, and computing starts"
        yield "continue", is_right, f"{fact} at position {start} of {num_tokens}."

    # ---- blocks ----

    def _of_blocks(self, event: ev.Event) -> Iterator[_Test]:
        fold = self._fold
        match event:
            case ev.BlockAllocated(block_id=number) | ev.BlockCopied(dst=number):
                queue, block = fold.free_queue, fold.blocks[number]
                is_next = number in queue and (not self._is_paged or number == next(iter(queue)))
                place = "from the head of the free" if is_next else "not from the head of the"
                state = "without a hash" if block.hash is None else "with its old hash"
                fact = f"{event.seq_id} gets block {number}, {place} queue and {state}."
                yield "head-first", is_next and block.hash is None, fact
            case ev.BlockHit(seq_id=name, block_id=number):
                self._num_hits[name] = self._num_hits.get(name, 0) + 1
                held = self._contents.get(fold.blocks[number].hash or "", [])
                same = self._tokens_of(name)[: (event.logical + 1) * self._size] == held
                begins = "begins with the same" if same else "does not begin with the"
                yield (
                    "same-hash",
                    same,
                    f"{name} {begins} tokens of block {number}, which it finds.",
                )
            case ev.BlockHashed(block_id=number):
                owners = [one for one in fold.running if number in fold.sequences[one].block_table]
                fact = "gets a hash and has no owner."
                kept = bool(owners)
                if owners:
                    kept, fact = self._hashes(owners[0], number, event.hash)
                yield "same-hash", kept, f"Block {number} {fact}"
            case ev.BlockReleased(seq_id=name, block_id=number):
                table = fold.sequences[name].block_table
                fact = f"{name} with the table {table} releases block {number}."
                yield "tail-first", table[-1:] == [number], fact
                self._num_hits[name] = 0
            case ev.BlockFreed(block_id=number):
                self._without_owner.discard(number)
                owners = fold.blocks[number].ref_cnt
                fact = f"Block {number} joins the free queue, and has {plural(owners, 'owner')}"
                yield "last-owner", not owners and number not in fold.free_queue, f"{fact} left."

    def _hashes(self, name: str, block_id: int, block_hash: str) -> tuple[bool, str]:
        sequence = self._fold.sequences[name]
        end = (sequence.block_table.index(block_id) + 1) * self._size
        tokens = self._tokens_of(name)[:end]
        is_full = len(tokens) == end and sequence.num_computed_tokens >= end
        same = self._contents.setdefault(block_hash, tokens) == tokens
        full = "full" if is_full else "not full"
        first = "no other tokens have it" if same else "other tokens have it, too"
        return is_full and same, f"is {full}; of its hash, {first}."

    def _tokens_of(self, name: str) -> list[int]:
        sequence = self._fold.sequences[name]
        prompt = self._fold.requests[sequence.request_id].prompt_token_ids
        return [*prompt, *sequence.output_token_ids]
