"""`check_rules`: reads a recording event by event, and checks the rules that every engine keeps.

It knows events only, and shares no code with the scheduler or the block pool. Before each event is
applied to a fold, `_CHECKS` names the methods that look at it. A method yields a `RuleTest` for
each rule that the event puts to the test, whether the rule is kept or broken. So a view can also
say why a step is right.

    findings = check_rules(reader.header, reader)
    first = next(one for one in findings if not one.kept)     # which step broke which rule
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.state import SequenceState

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


def check_rules(header: ev.LogHeader, events: Iterable[ev.Event]) -> Iterator[RuleTest]:
    """Yield a finding for each test of a rule, in the order of the events."""
    watch = _RuleWatch(header)
    for event in events:
        yield from watch.look_at(event)


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

    def look_at(self, event: ev.Event) -> Iterator[RuleTest]:
        yield from self._must_be_freed(event)
        if check := _CHECKS.get(type(event)):
            for rule, kept, fact in check(self, event):
                yield RuleTest(rule, event.step, kept, fact)
        self._fold.apply(event)
        lost_owner = isinstance(event, ev.BlockReleased)
        if lost_owner and self._fold.blocks[event.block_id].ref_cnt == 0:
            self._without_owner.add(event.block_id)

    def _must_be_freed(self, event: ev.Event) -> Iterator[RuleTest]:
        if isinstance(event, ev.BlockReleased):
            return
        if isinstance(event, ev.BlockFreed):
            self._without_owner.discard(event.block_id)
            return
        for block_id in self._without_owner:
            fact = f"Block {block_id} has no owner any more, and does not join the free queue."
            yield RuleTest("last-owner", event.step, False, fact)
        self._without_owner.clear()

    # ---- the plan of a step ----

    def _begin(self, event: ev.StepBegin) -> Iterator["_Test"]:
        self._used, self._has_preempted = 0, False
        yield from ()

    def _scheduled(self, event: ev.StepScheduled) -> Iterator["_Test"]:
        name, start = event.seq_id, event.num_computed_tokens
        end = start + event.num_tokens
        sequence = self._fold.sequences[name]
        yield self._spend(event.num_tokens)
        yield (
            "continue",
            start == sequence.num_computed_tokens,
            f"{name} has {sequence.num_computed_tokens} computed tokens, and continues at position"
            f" {start}.",
        )
        table = sequence.block_table
        yield (
            "table-room",
            end <= len(table) * self._size,
            f"{name} computes up to position {end - 1}; its table has room for"
            f" {len(table) * self._size} tokens.",
        )
        first = max(start, sequence.num_cached_tokens)
        for index in range(first // self._size, -(-end // self._size)):
            if first < end and index < len(table):
                owners = self._fold.blocks[table[index]].ref_cnt
                fact = f"{name} writes block {table[index]}, which has {_count(owners, 'owner')}."
                yield "one-writer", owners == 1, fact

    def _drafted(self, event: ev.DraftProposed) -> Iterator["_Test"]:
        yield self._spend(len(event.token_ids))

    def _spend(self, num_tokens: int) -> "_Test":
        self._used += num_tokens
        budget = self._fold.budget
        fact = f"{self._used} tokens are planned so far, of a budget of {budget}."
        return "budget", self._used <= budget, fact

    def _sampled(self, event: ev.TokenSampled) -> Iterator["_Test"]:
        sequence = self._fold.sequences[event.seq_id]
        yield (
            "sample-last",
            sequence.num_computed_tokens >= sequence.num_tokens,
            f"{event.seq_id} has {sequence.num_tokens} tokens, of which"
            f" {sequence.num_computed_tokens} are computed, and samples the next one.",
        )

    # ---- in and out of the batch ----

    def _admitted(self, event: ev.RequestAdmitted | ev.RequestResumed) -> Iterator["_Test"]:
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
        yield self._start_of(event, fold.sequences[name])

    def _start_of(
        self, event: ev.RequestAdmitted | ev.RequestResumed, sequence: SequenceState
    ) -> "_Test":
        num_cached = self._num_hits.get(event.seq_id, 0) * self._size
        expected = (num_cached, min(num_cached, sequence.num_tokens - 1))
        return (
            "continue",
            (event.num_cached_tokens, event.num_computed_tokens) == expected,
            f"{event.seq_id} found {_count(num_cached, 'token')} in the prefix cache, and computing"
            f" starts at position {event.num_computed_tokens} of {sequence.num_tokens}.",
        )

    def _preempted(self, event: ev.RequestPreempted) -> Iterator["_Test"]:
        name = event.seq_id
        self._has_preempted = True
        self._num_hits[name] = 0
        if event.need > 0:  # after an error, sequences that share its blocks leave the plan, too
            planned = any(share.seq_id == name for share in self._fold.scheduled)
            state = "already has" if planned else "has no"
            fact = f"{name} is preempted, and {state} tokens in this step's plan."
            yield "plan-kept", not planned, fact
        if self._is_fcfs:
            fact = f"{name} is preempted, and waits at position {event.position} of the queue."
            yield "queue-order", event.position == 0, fact

    # ---- blocks ----

    def _allocated(self, event: ev.BlockAllocated) -> Iterator["_Test"]:
        yield self._handed_out(event.block_id, event.seq_id)

    def _copied(self, event: ev.BlockCopied) -> Iterator["_Test"]:
        yield self._handed_out(event.dst, event.seq_id)

    def _handed_out(self, block_id: int, name: str) -> "_Test":
        queue, block = self._fold.free_queue, self._fold.blocks[block_id]
        is_next = block_id in queue and (not self._is_paged or block_id == next(iter(queue)))
        place = "from the head of the free queue" if is_next else "not from the head of the queue"
        state = "without a hash" if block.hash is None else "with its old hash"
        fact = f"{name} gets block {block_id}, {place} and {state}."
        return "head-first", is_next and block.hash is None, fact

    def _hit(self, event: ev.BlockHit) -> Iterator["_Test"]:
        name = event.seq_id
        self._num_hits[name] = self._num_hits.get(name, 0) + 1
        held = self._contents.get(self._fold.blocks[event.block_id].hash or "", [])
        same = self._tokens_of(name)[: (event.logical + 1) * self._size] == held
        as_ = "begins with the same tokens as" if same else "does not begin with the tokens of"
        yield "same-hash", same, f"{name} {as_} block {event.block_id}, which it finds."

    def _hashed(self, event: ev.BlockHashed) -> Iterator["_Test"]:
        fold, block_id = self._fold, event.block_id
        owners = [one for one in fold.running if block_id in fold.sequences[one].block_table]
        if not owners:
            yield "same-hash", False, f"Block {block_id} gets a hash and has no owner."
            return
        sequence = fold.sequences[owners[0]]
        end = (sequence.block_table.index(block_id) + 1) * self._size
        tokens = self._tokens_of(owners[0])[:end]
        is_full = len(tokens) == end and sequence.num_computed_tokens >= end
        same = self._contents.setdefault(event.hash, tokens) == tokens
        full = "full" if is_full else "not full"
        first = "no other tokens have it" if same else "other tokens have it, too"
        yield "same-hash", is_full and same, f"Block {block_id} is {full}; of its hash, {first}."

    def _released(self, event: ev.BlockReleased) -> Iterator["_Test"]:
        name = event.seq_id
        table = self._fold.sequences[name].block_table
        is_last = bool(table) and table[-1] == event.block_id
        fact = f"{name} with the table {table} releases block {event.block_id}."
        yield "tail-first", is_last, fact
        self._num_hits[name] = 0

    def _freed(self, event: ev.BlockFreed) -> Iterator["_Test"]:
        block = self._fold.blocks[event.block_id]
        is_free = event.block_id in self._fold.free_queue
        fact = (
            f"Block {event.block_id} joins the free queue, and has"
            f" {_count(block.ref_cnt, 'owner')} left."
        )
        yield "last-owner", block.ref_cnt == 0 and not is_free, fact

    def _tokens_of(self, name: str) -> list[int]:
        sequence = self._fold.sequences[name]
        prompt = self._fold.requests[sequence.request_id].prompt_token_ids
        return [*prompt, *sequence.output_token_ids]


_Test = tuple[str, bool, str]
"""(rule, kept, fact)."""

_CHECKS: Mapping[type[ev.Event], Callable[..., Iterator[_Test]]] = MappingProxyType(
    {
        ev.StepBegin: _RuleWatch._begin,
        ev.StepScheduled: _RuleWatch._scheduled,
        ev.DraftProposed: _RuleWatch._drafted,
        ev.TokenSampled: _RuleWatch._sampled,
        ev.RequestAdmitted: _RuleWatch._admitted,
        ev.RequestResumed: _RuleWatch._admitted,
        ev.RequestPreempted: _RuleWatch._preempted,
        ev.BlockAllocated: _RuleWatch._allocated,
        ev.BlockCopied: _RuleWatch._copied,
        ev.BlockHit: _RuleWatch._hit,
        ev.BlockHashed: _RuleWatch._hashed,
        ev.BlockReleased: _RuleWatch._released,
        ev.BlockFreed: _RuleWatch._freed,
    }
)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
