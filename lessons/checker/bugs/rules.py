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
    event: ev.Event


def check_rules(header: ev.LogHeader, events: Iterable[ev.Event]) -> Iterator[RuleTest]:
    """Yield a finding for each test of a rule, in the order of the events."""
    watch = _RuleWatch(header)
    for event in events:
        for rule, kept in watch.look_at(event):
            yield RuleTest(rule, event.step, kept, event)


class _RuleWatch:
    """Yields (rule, kept) for each event."""

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

    def look_at(self, event: ev.Event) -> Iterator[tuple[str, bool]]:
        if self._without_owner and not isinstance(event, ev.BlockReleased | ev.BlockFreed):
            yield "last-owner", False  # such blocks must join the free queue first
            self._without_owner.clear()
        yield from self._of_plan(event)
        yield from self._of_blocks(event)
        self._fold.apply(event)
        if isinstance(event, ev.BlockReleased) and not self._fold.blocks[event.block_id].ref_cnt:
            self._without_owner.add(event.block_id)

    def _of_plan(self, event: ev.Event) -> Iterator[tuple[str, bool]]:
        fold = self._fold
        match event:
            case ev.StepBegin():
                self._used, self._has_preempted = 0, False
            case ev.DraftProposed(token_ids=drafts):
                self._used += len(drafts)
                yield "budget", self._used <= fold.budget
            case ev.StepScheduled(seq_id=name, num_computed_tokens=start, num_tokens=count):
                self._used += count
                yield "budget", self._used <= fold.budget
                sequence, table = fold.sequences[name], fold.sequences[name].block_table
                yield "continue", start == sequence.num_computed_tokens
                yield "table-room", start + count <= len(table) * self._size
                first, end = max(start, sequence.num_cached_tokens), start + count
                if first < end:  # the blocks that are written
                    for block_id in table[first // self._size : -(-end // self._size)]:
                        yield "one-writer", fold.blocks[block_id].ref_cnt == 1
            case ev.TokenSampled(seq_id=name):
                sequence = fold.sequences[name]
                yield "sample-last", sequence.num_computed_tokens >= sequence.num_tokens
            case ev.RequestAdmitted(seq_id=name) | ev.RequestResumed(seq_id=name):
                ahead = [fold.sequences[one] for one in fold.waiting[: fold.waiting.index(name)]]
                may_pass = [(one.deferred or [""])[0] == "grammar_not_compiled" for one in ahead]
                yield "queue-order", all(may_pass)
                yield "no-admission", not self._has_preempted
                taken = [fold.sequences[one].slot for one in fold.running]
                yield "own-slot", event.slot not in taken
                cached = self._num_hits.get(name, 0) * self._size
                start = min(cached, fold.sequences[name].num_tokens - 1)
                found = (event.num_cached_tokens, event.num_computed_tokens)
                yield "continue", found == (cached, start)
            case ev.RequestPreempted(seq_id=name):
                self._has_preempted = True
                self._num_hits[name] = 0
                if event.need > 0:  # after an error, sequences that share its blocks leave, too
                    yield "plan-kept", all(share.seq_id != name for share in fold.scheduled)
                if self._is_fcfs:
                    yield "queue-order", event.position == 0

    def _of_blocks(self, event: ev.Event) -> Iterator[tuple[str, bool]]:
        fold = self._fold
        match event:
            case ev.BlockAllocated(block_id=number) | ev.BlockCopied(dst=number):
                queue = fold.free_queue
                is_next = number in queue and (not self._is_paged or number == next(iter(queue)))
                yield "head-first", is_next and fold.blocks[number].hash is None
            case ev.BlockHit(seq_id=name, block_id=number, logical=logical):
                self._num_hits[name] = self._num_hits.get(name, 0) + 1
                held = self._contents.get(fold.blocks[number].hash or "", [])
                yield "same-hash", self._tokens_of(name)[: (logical + 1) * self._size] == held
            case ev.BlockHashed(block_id=number):
                owners = [one for one in fold.running if number in fold.sequences[one].block_table]
                yield "same-hash", bool(owners) and self._is_full(owners[0], number, event.hash)
            case ev.BlockReleased(seq_id=name, block_id=number):
                yield "tail-first", fold.sequences[name].block_table[-1:] == [number]
                self._num_hits[name] = 0
            case ev.BlockFreed(block_id=number):
                self._without_owner.discard(number)
                is_new = number not in fold.free_queue
                yield "last-owner", is_new and fold.blocks[number].ref_cnt == 0

    def _is_full(self, name: str, block_id: int, block_hash: str) -> bool:
        """Whether a block may get a hash. Note the first tokens that have it."""
        sequence = self._fold.sequences[name]
        end = (sequence.block_table.index(block_id) + 1) * self._size
        tokens = self._tokens_of(name)[:end]
        is_same = self._contents.setdefault(block_hash, tokens) == tokens
        return is_same and len(tokens) == end <= sequence.num_computed_tokens

    def _tokens_of(self, name: str) -> list[int]:
        sequence = self._fold.sequences[name]
        prompt = self._fold.requests[sequence.request_id].prompt_token_ids
        return [*prompt, *sequence.output_token_ids]
