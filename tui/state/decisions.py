"""Events and reasons as sentences: one table for all panels, answers and the site's player.

`cli/recordings/bundle.py` makes `labels.js` of the table. A phrase has facts in braces: `{free}` is
a number, `{need:block}` is "1 block" or "2 blocks". `DecisionLog` keeps the newest decisions:
arrivals, forks, ends, waits, and blocks taken, hit, copied, freed or evicted. Blocks with the same
step, cause and owner share a sentence, so that a long prompt does not fill the screen.
"""

from itertools import islice
from typing import NamedTuple

import msgspec

from minivllm.events import types as ev
from minivllm.text import clean, id_ranges, plural, short_name, visible
from minivllm.tui.draw.lines import Span

PHRASES = {
    # Why a sequence was not admitted, in a list. A second form has the name of its condition.
    "defer.no_blocks": "needs {need:block}, {free} free",
    "defer.token_budget": "token budget used",
    "defer.token_budget.free": "needs {need:token}, {free} of the budget left",
    "defer.max_num_seqs": "all slots taken",
    "defer.max_num_seqs.limit": "all {limit:slot} taken",
    "defer.max_num_seqs.free": "needs {need:slot}, {free} free",
    "defer.preempted_this_step": "preemption this step",
    "defer.grammar_not_compiled": "grammar not compiled yet",
    "defer.waiting_for_remote_kvs": "loads {need:block}",
    "defer.no_contiguous_run": "needs {need:contiguous block}, longest {free}",
    "defer.static_batch": "the batch must end, {need:sequence} left",
    "defer.batch_delay": "batch not full: {free} of {need} have arrived",
    "defer.stale_output": "the running step's tokens come first",
    "defer.lora": "all adapters of the step are in use",
    "defer.paused": "the scheduler is paused",
    "defer.throttled": "another replica's prompts come first",
    "defer.other": "the recording does not say why",
    # The same after the sequence's name in a sentence, where that is not "waits: " and the above.
    "waits.no_blocks": "needs {need:block} with {free} free",
    "waits.token_budget": "found no budget left",
    "waits.token_budget.free": "needs {need:token} at once with {free} of the budget left",
    "waits.max_num_seqs": "needs {need:batch slot} with {free} of {limit} free",
    "waits.preempted_this_step": "waits: no request is admitted in a step that preempted one",
    "waits.grammar_not_compiled": "waits for its grammar, which is not compiled yet",
    "waits.waiting_for_remote_kvs": "waits for {need:block} to be loaded",
    "waits.batch_delay": "waits for a full batch: {free} of {need} sequences have arrived",
    # Why a victim was preempted, after the name of the sequence that needed its blocks.
    "cause.reset": "lost its blocks when the prefix cache was reset",
    "cause.failed": "failed before it wrote a shared block",
    "cause.slot": "needed a batch slot",
    "cause.blocks": "needed {need:block}, only {free} free",
    "cause.no_blocks": "needed {need:block}, none was free",
    "cause.own": "; last in line, it gave up its own",
    # Why a lookup in the prefix cache found no block.
    "miss.caching_off": "prefix caching is off",
    "miss.prompt_shorter_than_a_block": "prompt shorter than a block",
    "miss.never_seen": "never seen",
    "miss.evicted": "it was evicted",
    "miss.prompt_logprobs": "prompt log-probabilities were requested",
    "miss.last_block_not_looked_up": "vLLM never looks up the last block of a prompt",
    # How a sequence ended; `when` is "in step 12 with 40 tokens, including its prompt".
    "end.stop": "finished {when}: an end token or a stop string",
    "end.length": "ended {when}, at its token limit",
    "end.abort": "was aborted {when}",
    # A waiting sequence that nothing keeps out any more.
    "queue.new": "new",
    "queue.again": "not considered yet",
    "queue.behind": "behind {name}",
    "queue.slot": "a slot is free now: next step",
    "queue.loaded": "loaded, waits for a token of the budget",
}


class EventWords(NamedTuple):
    """A sentence about an event, after the name of its sequence."""

    verb: str
    """The ids of the blocks follow."""
    after: str
    """The rest of the sentence."""
    style: str
    """`good`, `warn`, `bad`, `accent`, `text` or `muted`."""


EVENT_WORDS = {
    "request.arrived": ("arrives", ", {tokens:prompt token}", "text"),
    "request.admitted": ("enters slot {slot}", "", "good"),
    "request.admitted.cached": ("enters slot {slot}", ", {cached} tokens cached", "good"),
    "request.resumed": ("resumes in slot {slot}", "", "good"),
    "request.resumed.cached": ("resumes in slot {slot}", ", {cached} tokens cached", "good"),
    "request.deferred": ("waits", ": {reason}", "warn"),
    "request.preempted": ("is preempted", ": {victim_of} {reason}", "bad"),
    "request.preempted.itself": ("is preempted", ": it {reason}", "bad"),
    "request.forked": ("is forked from {parent}", ", blocks shared", "good"),
    "request.beam_pruned": ("is pruned", ": others are better", "warn"),
    "request.beam_pruned.complete": ("is complete", ": one of the best texts so far", "good"),
    "request.beams_found": ("ends its search", ": {texts:text} found", "good"),
    "request.finished": ("finishes", " by itself", "good"),
    "request.finished.length": ("finishes", " at its token limit", "good"),
    "request.aborted": ("is aborted", "", "bad"),
    "request.aborted.error": ("fails", "", "bad"),
    "block.allocated": ("takes", "", "text"),
    "block.hashed": ("fills", ", now in the prefix cache", "muted"),
    "block.hit": ("reuses", ", already computed", "good"),
    "block.copied": ("copies shared block {src} to {dst}", "", "accent"),
    "block.missed": ("finds no cached block {logical}", ": {reason}", "muted"),
    "block.released": ("releases", "", "muted"),
    "block.freed": ("freed", ", empty", "muted"),
    "block.freed.tail": ("freed", ", still cached", "muted"),
    "block.evicted": ("loses", ", evicted", "warn"),
    "kv.store": ("saves", " in the host's memory", "accent"),
    "kv.lost": ("the host's block {host_block} is reused", ": its copy is lost", "warn"),
    "kv.lost.failed": ("the host's block {host_block} is dropped", ": its request failed", "warn"),
    "kv.load": ("begins to load {blocks:block}", " from the host's memory", "accent"),
    "kv.load.remote": ("begins to load {blocks:block}", " from another engine", "accent"),
    "kv.loaded": ("has loaded {tokens:token}", "", "good"),
    "kv.lease": ("keeps {blocks:block}", " for another engine", "accent"),
    "kv.released": ("the kept blocks are released", ": another engine has them", "good"),
    "kv.released.expired": ("the kept blocks are released", ": the lease is over", "warn"),
    "kv.released.failed": ("the kept blocks are released", ": a request failed", "warn"),
    "step.withdrawn": ("loses its share of the step", "", "warn"),
    "draft.verified": ("keeps no draft", "", "warn"),
    "draft.verified.some": ("keeps {kept:draft}", "", "good"),
    "engine.option_changed": ("{name} is now {value}", ", it was {old}", "accent"),
    "invariant.violated": ("INVARIANT {name} violated", ": {detail}", "bad"),
    "log.gap": ("{lost:event} lost", ": what follows may be wrong", "bad"),
}
"""Kind of event, and a variant of it -> its `EventWords`."""


NARRATED = {
    "kv.load": (5, "{name} loads {blocks:block} from another memory: it owns them, and waits"),
    "request.preempted": (5, "{victim_of} {reason}: {name} gives up its blocks"),
    "request.preempted.itself": (5, "{victim_of} {reason}"),
    "kv.loaded": (4, "{tokens:token} of {name} came from another memory: nobody computes them"),
    "kv.store": (4, "{blocks:block} of {name} may be reused soon: the host keeps a copy"),
    "block.hit": (4, "{name} begins like an earlier prompt: {blocks:block} reused"),
    "block.hit.resumed": (4, "{name} is back: the cache still has {blocks:block} of its text"),
    "block.copied": (4, "{name} writes into shared block {src}: block {dst} is its own copy"),
    "block.evicted": (3, "only cached blocks are free: the cache forgets {blocks:block} of {name}"),
    "request.forked": (3, "{name} goes on from {parent}: they share its blocks"),
    "request.deferred": (2, "{name} waits: {reason}"),
    "request.resumed": (2, "there is room again: {name} goes on in slot {slot}"),
    "request.finished": (2, "{name} has ended: its slot and its blocks are free"),
    "request.aborted": (2, "{name} is aborted: its slot and its blocks are free"),
    "request.admitted": (1, "slot {slot} is free: {name} enters"),
    "request.arrived": (0, "{name} arrives with {tokens:prompt token}"),
}
"""Kind of a notable event -> its rank, and a sentence with the cause first. The narrated line shows
the highest rank of the last moments; `{blocks}` is how many blocks the decision is about."""


class _Count(int):
    """A number that writes itself with a noun: `format(_Count(2), "block")` is "2 blocks"."""

    def __format__(self, noun: str) -> str:
        return plural(int(self), noun) if noun else f"{int(self):,}"


def fill_in(phrase: str, **facts: int | str) -> str:
    """Put the facts into a phrase of this table."""
    if "{" not in phrase:
        return phrase
    counted = {
        name: _Count(fact) if isinstance(fact, int) else fact for name, fact in facts.items()
    }
    return phrase.format_map(counted)


def phrase(key: str, **facts: int | str) -> str:
    return fill_in(PHRASES[key], **facts)


LOG_LENGTH = 64
"""Sentences kept: more than the tallest screen shows. Every keyframe contains them all."""
_LONGEST_VALUE = 40
_LOOK_BACK = 6
"""A block can join a sentence with the same key among this many newest sentences."""


class Decision(msgspec.Struct):
    """A line of the log. Further blocks with the same `key` are appended to `block_ids`."""

    seq: int
    """Number of the decision's first event."""
    step: int
    key: tuple[int, str, str | None, str, str]
    """(step, kind, owner, verb, ending)"""
    owner: str | None
    letter: str | None
    verb: str
    style: str
    after: str = ""
    block_ids: list[int] = []
    facts: dict[str, int | str] = {}
    """What the sentence of `NARRATED` says; empty for other kinds."""

    @property
    def rank(self) -> int:
        """How notable it is; -1 if it is not narrated."""
        return NARRATED.get(self.key[1], (-1,))[0] if self.owner else -1

    def narrated(self) -> str:
        facts = {"blocks": len(self.block_ids)} | self.facts | {"name": self.name}
        return fill_in(NARRATED[self.key[1]][1], **facts)

    @property
    def name(self) -> str:
        return short_name(self.owner) if self.owner else ""

    def spans(self) -> list[Span]:
        """The sentence without step and name."""
        blocks = id_ranges(self.block_ids)
        return [(f"{self.verb} {blocks}".rstrip(), self.style), (self.after, "muted")]


class DecisionLog(msgspec.Struct):
    decisions: list[Decision] = []
    waits_for: dict[str, str] = {}
    """Sequence -> its last logged reason to wait. Only a new reason is logged."""

    def add(
        self, event: ev.Event, owner: str | None, letter: str | None, variant: str = ""
    ) -> None:
        """owner: the event's sequence, or the last owner of its block
        variant: after the kind of the event, a key of `NARRATED`
        """
        if (words := words_of(event)) is None:
            return
        verb, after, style = words
        block_id = getattr(event, "block_id", None)
        key = (event.step, event.__struct_config__.tag + variant, owner, verb, after)
        if block_id is not None:
            for decision in self.decisions[-_LOOK_BACK:]:
                if decision.key == key:
                    decision.block_ids.append(block_id)
                    return
        elif isinstance(event, ev.RequestDeferred):
            if self.waits_for.get(owner) == event.reason:
                return
            self.waits_for[owner] = event.reason
        elif type(event) in _END_A_WAIT:
            self.waits_for.pop(owner, None)
        ids = [] if block_id is None else [block_id]
        facts = _facts_of(event)[1] if key[1] in NARRATED else {}
        new = Decision(event.seq, event.step, key, owner, letter, verb, style, after, ids, facts)
        self.decisions.append(new)
        if len(self.decisions) > LOG_LENGTH:
            del self.decisions[0]


def sentence_of(event: ev.Event) -> str:
    """One event in words; for a kind without a sentence, the event's fields."""
    if type(event) in _NUMBERS:
        return _NUMBERS[type(event)](event)
    if (words := words_of(event)) is None:
        own = [name for name in event.__struct_fields__ if name not in ("seq", "step", "t")]
        return clean(", ".join(f"{name} {getattr(event, name)}" for name in own))
    owner, block_id = getattr(event, "seq_id", None), getattr(event, "block_id", None)
    name = f"{short_name(owner)} " if owner else ""
    return f"{name}{words.verb}{'' if block_id is None else f' block {block_id}'}{words.after}"


def style_of(event: ev.Event) -> str:
    words = words_of(event)
    return "muted" if words is None else words.style


def cause_of_preemption(e: ev.RequestPreempted) -> str:
    """Why a victim was preempted, to follow the name of the sequence that needed its blocks."""
    if e.need <= 0:
        return phrase("cause.failed" if e.need == 0 else "cause.reset")
    key = "cause.slot" if e.need <= e.free else "cause.blocks" if e.free else "cause.no_blocks"
    own = phrase("cause.own") if e.victim_of == e.seq_id else ""
    return phrase(key, need=e.need, free=e.free) + own


def whose_need(preemption: ev.RequestPreempted) -> str:
    """Why a sequence was preempted: `ada needed 2 blocks, only 1 free`."""
    whose = "it" if preemption.victim_of == preemption.seq_id else short_name(preemption.victim_of)
    return f"{whose} {cause_of_preemption(preemption)}"


def deferral(reason: ev.DeferReason, need: int, free: int, max_num_seqs: int | None = None) -> str:
    """Why a sequence was not admitted. The unit of `need` and `free` depends on the reason."""
    key = f"defer.{reason}"
    if reason == "max_num_seqs":
        # A request with several sequences needs a slot for each.
        key += ".free" if free else "" if max_num_seqs is None else ".limit"
    elif reason == "token_budget" and free:
        # Without chunked prefill, a prompt must fit whole into the rest of the budget.
        key += ".free"
    if key not in PHRASES:  # of a newer version
        return clean(str(reason))
    return phrase(key, need=need, free=free, limit=max_num_seqs or 0)


def sampling_words(sampling: ev.RequestSampling) -> str:
    """The temperature, and the sampling parameters that are not at their defaults."""
    given = {"temperature": sampling.temperature} | msgspec.to_builtins(sampling)
    words = (
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {str(value)[:_LONGEST_VALUE]}"
        for name, value in given.items()
    )
    return clean(", ".join(words))


def miss(why: ev.MissReason) -> str:
    key = f"miss.{why}"
    return phrase(key) if key in PHRASES else clean(str(why))


def _traced(event: ev.KernelTraced) -> tuple[str, str, str]:
    if event.problem is not None:
        return "could not be traced", f": {clean(event.problem)}", "warn"
    seen = f": {plural(len(event.programs), 'program')} over {plural(event.num_tokens, 'token')}"
    if event.recorded == "another":
        return "cannot be traced without Triton", f": a recording of another run{seen}", "warn"
    return "is traced", f"{seen}{', recorded elsewhere' if event.recorded else ''}", "accent"


_END_A_WAIT = (
    ev.RequestAdmitted, ev.RequestResumed, ev.RequestFinished, ev.BeamPruned, ev.RequestAborted,
)  # fmt: skip

# Kind -> (variant of its words, facts) of an event, for the kinds that have any.
_FACTS = {
    ev.RequestArrived: lambda e: ("", {"tokens": len(e.prompt_token_ids)}),
    ev.RequestAdmitted: lambda e: _admitted(e),
    ev.RequestResumed: lambda e: _admitted(e),
    ev.RequestDeferred: lambda e: ("", {"reason": deferral(e.reason, e.need, e.free)}),
    ev.RequestPreempted: lambda e: (
        ".itself" if e.victim_of == e.seq_id else "",
        {"victim_of": short_name(e.victim_of), "reason": cause_of_preemption(e)},
    ),
    ev.RequestForked: lambda e: ("", {"parent": short_name(e.parent)}),
    ev.BeamPruned: lambda e: ("" if e.stop_reason is None else ".complete", {}),
    ev.BeamsFound: lambda e: ("", {"texts": len(e.texts)}),
    ev.RequestFinished: lambda e: (".length" if e.reason == "length" else "", {}),
    ev.RequestAborted: lambda e: (".error" if e.error else "", {}),
    ev.BlockCopied: lambda e: ("", {"src": e.src, "dst": e.dst}),
    ev.BlockMissed: lambda e: ("", {"logical": e.logical, "reason": miss(e.why)}),
    ev.BlockFreed: lambda e: (".tail" if e.position == "tail" else "", {}),
    ev.KVLost: lambda e: (".failed" if e.why == "failed" else "", {"host_block": e.host_block}),
    ev.KVLoad: lambda e: ("" if e.source == "host" else ".remote", {"blocks": len(e.block_ids)}),
    ev.KVLease: lambda e: ("", {"blocks": len(e.block_ids)}),
    ev.KVReleased: lambda e: ("" if e.why == "read" else f".{e.why}", {}),
    ev.KVLoaded: lambda e: ("", {"tokens": e.num_tokens}),
    ev.DraftVerified: lambda e: (".some" if e.num_accepted else "", {"kept": e.num_accepted}),
    ev.OptionChanged: lambda e: ("", {"name": clean(str(e.name)), "value": e.value, "old": e.old}),
    ev.InvariantViolated: lambda e: ("", {"name": clean(e.name), "detail": clean(e.detail)}),
    ev.Gap: lambda e: ("", {"lost": e.lost}),
}


def _facts_of(event: ev.Event) -> tuple[str, dict[str, int | str]]:
    return _FACTS[type(event)](event) if type(event) in _FACTS else ("", {})


def _admitted(e: ev.RequestAdmitted | ev.RequestResumed) -> tuple[str, dict[str, int]]:
    facts = {"slot": e.slot, "cached": e.num_cached_tokens}
    return ".cached" if e.num_cached_tokens else "", facts


def words_of(event: ev.Event) -> EventWords | None:
    """The words of an event in the table; None for a kind that is no decision."""
    if type(event) is ev.KernelTraced:
        return EventWords(*_traced(event))
    if type(event) not in TOLD_KINDS:
        return None
    variant, facts = _facts_of(event)
    verb, after, style = EVENT_WORDS[event.__struct_config__.tag + variant]
    return EventWords(fill_in(verb, **facts), fill_in(after, **facts), style)


TOLD_KINDS = frozenset(
    kind for kind in ev.EVENT_KINDS if kind.__struct_config__.tag in EVENT_WORDS
) | {ev.KernelTraced}
"""Kinds that have a sentence. Call `add` only for these."""


def _seconds(e: ev.StepEnd) -> str:
    """The step's time and its parts, longest first, because the end of a long row is cut."""
    parts = [(getattr(e, f"t_{name}"), name) for name in ("schedule", "prepare", "model", "sample")]
    parts.sort(reverse=True)
    listed = ", ".join(f"{name} {1000 * seconds:.1f}" for seconds, name in parts if seconds)
    return f" in {1000 * sum(seconds for seconds, _ in parts):.1f} ms: {listed}" if listed else ""


def _most(shares: list[float], noun: str, where: str = "") -> str:
    if not shares:
        return ""
    most = max(range(len(shares)), key=shares.__getitem__)
    return f": most of it, {shares[most]:.0%}, on {noun} {most} {where}".rstrip()


def experts_read(e: ev.ExpertsRouted) -> str:
    counts = [count for layer in e.counts for count in layer]
    return f"{sum(map(bool, counts)):,} of {len(counts):,}"


def layer_and_head(e: ev.TokenAttention) -> str:
    """Whose attention it is: `layer 3, mean of 6 heads`."""
    layer = f"mean of {plural(e.num_layers, 'layer')}" if e.layer is None else f"layer {e.layer}"
    heads = f"mean of {plural(e.num_heads, 'head')}" if e.head is None else f"head {e.head}"
    if e.layer is None and e.head is None:
        return f"mean of {plural(e.num_layers, 'layer')} and {plural(e.num_heads, 'head')}"
    return f"{layer}, {heads}"


def _explained(e: ev.TokenExplained) -> str:
    if e.beams:
        num_going_on = sum(beam.fate == "continues" for beam in e.beams)
        return (
            f"{short_name(e.seq_id)} and its siblings: {plural(num_going_on, 'candidate')} go on,"
            f" the best is token {e.token_id} with score {e.beams[0].score:.2f}"
        )
    left = f"{plural(e.num_left, 'token')} of {e.vocab_size:,} left"
    if e.token_id is None:
        return f"{short_name(e.seq_id)} is about to draw: {left}"
    chosen = e.chosen
    likely = "" if chosen is None else f" with probability {chosen.final_probability:.1%}"
    return f"{short_name(e.seq_id)} chooses token {e.token_id}{likely}: {left}"


# Sentences for steps and tokens, which only the list of all events shows.
_NUMBERS = {
    ev.StepBegin: lambda e: f"step {e.step} begins: budget {plural(e.budget, 'token')}",
    ev.StepScheduled: lambda e: (
        f"{short_name(e.seq_id)}: {plural(e.num_tokens, f'{clean(e.kind)} token')} at position"
        f" {e.num_computed_tokens}"
    ),
    ev.DraftProposed: lambda e: (
        f"{short_name(e.seq_id)}: {plural(len(e.token_ids), 'token')} drafted"
        + ("" if e.match is None else f", which followed position {e.match + e.match_length - 1}")
    ),
    ev.DraftVerified: lambda e: (
        f"{short_name(e.seq_id)}: {plural(e.num_accepted, 'draft')} kept, then token {e.token_id}"
    ),
    ev.StepEnd: lambda e: f"{plural(e.used, 'token')}{_seconds(e)}",
    ev.TokensNamed: lambda e: (
        f"{plural(len(e.pieces), 'token id')} named: "
        + " ".join(f"{token} “{visible(text)}”" for token, text in islice(e.pieces.items(), 12))
    ),
    ev.TokenSampled: lambda e: (
        f"{short_name(e.seq_id)} samples “{clean(e.text[:200])}” (token {e.token_id})"
    ),
    ev.GrammarState: lambda e: (
        f"the grammar of {short_name(e.seq_id)} allows {plural(e.num_allowed, 'token')}"
        + ("" if e.refused_token_id is None else f", and refuses token {e.refused_token_id}")
        + (f" with probability {e.refused_probability:.1%}" if e.refused_probability else "")
    ),
    ev.TokenExplained: _explained,
    ev.TextFlushed: lambda e: (
        f"{short_name(e.seq_id)} shows “{clean(e.text[:200])}”, which was held back"
    ),
    ev.AttentionMass: lambda e: (
        f"{short_name(e.seq_id)} attends to {plural(len(e.mass), 'block')}"
        f"{_most(e.mass, 'entry', 'of its block table')}"
    ),
    ev.ExpertsRouted: lambda e: f"the step reads {experts_read(e)} experts",
    ev.TokenAttention: lambda e: (
        f"{short_name(e.seq_id)} attends to {plural(len(e.weights), 'token')} in"
        f" {layer_and_head(e)}{_most(e.weights, 'the token at position')}"
    ),
}
