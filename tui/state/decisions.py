"""The engine's decisions as sentences, newest last.

Decisions are arrivals, forks, ends, waits with their reasons, and blocks taken, hit, copied, freed
or evicted; other panels show steps and tokens. Blocks with the same step, cause and owner share a
sentence, so that a long prompt does not fill the screen.
"""

from itertools import islice

import msgspec

from minivllm.events import types as ev
from minivllm.text import clean, id_ranges, plural, short_name, visible
from minivllm.tui.draw.lines import Span
from minivllm.tui.state.phrases import PHRASES, EventWords, event_words, phrase

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

    def add(self, event: ev.Event, owner: str | None, letter: str | None) -> None:
        """owner: the event's sequence, or the last owner of its block"""
        in_words = _SENTENCES.get(type(event))
        if in_words is None:
            return
        verb, after, style = in_words(event)
        block_id = getattr(event, "block_id", None)
        key = (event.step, event.__struct_config__.tag, owner, verb, after)
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
        block_ids = [] if block_id is None else [block_id]
        self.decisions.append(
            Decision(event.seq, event.step, key, owner, letter, verb, style, after, block_ids)
        )
        if len(self.decisions) > LOG_LENGTH:
            del self.decisions[0]


def sentence_of(event: ev.Event) -> str:
    """One event in words; for a kind without a sentence, the event's fields."""
    in_words = _SENTENCES.get(type(event))
    if type(event) in _NUMBERS:
        return _NUMBERS[type(event)](event)
    if in_words is None:
        own = [name for name in event.__struct_fields__ if name not in ("seq", "step", "t")]
        return clean(", ".join(f"{name} {getattr(event, name)}" for name in own))
    verb, after, _ = in_words(event)
    owner, block_id = getattr(event, "seq_id", None), getattr(event, "block_id", None)
    name = f"{short_name(owner)} " if owner else ""
    return f"{name}{verb}{'' if block_id is None else f' block {block_id}'}{after}"


def style_of(event: ev.Event) -> str:
    in_words = _SENTENCES.get(type(event))
    return "muted" if in_words is None else in_words(event)[2]


def cause_of_preemption(need: int, free: int) -> str:
    """Why a victim was preempted, to follow the name of the sequence that needed its blocks."""
    if need == 0:
        return phrase("cause.failed")
    return phrase("cause.slot" if need <= free else "cause.blocks", need=need, free=free)


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


def _admitted(event: ev.RequestAdmitted | ev.RequestResumed) -> EventWords:
    key = event.__struct_config__.tag + (".cached" if event.num_cached_tokens else "")
    return event_words(key, slot=event.slot, cached=event.num_cached_tokens)


def _traced(event: ev.KernelTraced) -> tuple[str, str, str]:
    if event.problem is not None:
        return "could not be traced", f": {clean(event.problem)}", "warn"
    seen = f": {plural(len(event.programs), 'program')} over {plural(event.num_tokens, 'token')}"
    if event.recorded == "another":
        return "cannot be traced without Triton", f": a recording of another run{seen}", "warn"
    return "is traced", f"{seen}{', recorded elsewhere' if event.recorded else ''}", "accent"


_END_A_WAIT = (
    ev.RequestAdmitted,
    ev.RequestResumed,
    ev.RequestFinished,
    ev.BeamPruned,
    ev.RequestAborted,
)

# Event -> its words in the table. Block ids go between verb and rest.
_SENTENCES = {
    ev.RequestArrived: lambda e: event_words("request.arrived", tokens=len(e.prompt_token_ids)),
    ev.RequestAdmitted: _admitted,
    ev.RequestResumed: _admitted,
    ev.RequestDeferred: lambda e: event_words(
        "request.deferred", reason=deferral(e.reason, e.need, e.free)
    ),
    ev.RequestPreempted: lambda e: event_words(
        "request.preempted",
        victim_of=short_name(e.victim_of),
        reason=cause_of_preemption(e.need, e.free),
    ),
    ev.RequestForked: lambda e: event_words("request.forked", parent=short_name(e.parent)),
    ev.BeamPruned: lambda e: event_words(
        "request.beam_pruned" + ("" if e.stop_reason is None else ".complete")
    ),
    ev.BeamsFound: lambda e: event_words("request.beams_found", texts=len(e.texts)),
    ev.RequestFinished: lambda e: event_words(
        "request.finished" + (".length" if e.reason == "length" else "")
    ),
    ev.RequestAborted: lambda e: event_words("request.aborted" + (".error" if e.error else "")),
    ev.BlockAllocated: lambda e: event_words("block.allocated"),
    ev.BlockHashed: lambda e: event_words("block.hashed"),
    ev.BlockHit: lambda e: event_words("block.hit"),
    ev.BlockCopied: lambda e: event_words("block.copied", src=e.src, dst=e.dst),
    ev.BlockMissed: lambda e: event_words("block.missed", logical=e.logical, reason=miss(e.why)),
    ev.BlockReleased: lambda e: event_words("block.released"),
    ev.BlockFreed: lambda e: event_words("block.freed" + (".tail" if e.position == "tail" else "")),
    ev.BlockEvicted: lambda e: event_words("block.evicted"),
    ev.DraftVerified: lambda e: event_words(
        "draft.verified" + (".some" if e.num_accepted else ""), kept=e.num_accepted
    ),
    ev.OptionChanged: lambda e: event_words(
        "engine.option_changed", name=clean(str(e.name)), value=e.value, old=e.old
    ),
    ev.KernelTraced: _traced,
    ev.InvariantViolated: lambda e: event_words(
        "invariant.violated", name=clean(e.name), detail=clean(e.detail)
    ),
    ev.Gap: lambda e: event_words("log.gap", lost=e.lost),
}
TOLD_KINDS = frozenset(_SENTENCES)
"""Kinds that have a sentence. Call `add` only for these."""


def _seconds(e: ev.StepEnd) -> str:
    """The step's time and its parts, longest first, because the end of a long row is cut."""
    parts = (
        (e.t_schedule, "schedule"),
        (e.t_prepare, "prepare"),
        (e.t_model, "model"),
        (e.t_sample, "sample"),
    )
    listed = ", ".join(
        f"{name} {1000 * seconds:.1f}" for seconds, name in sorted(parts, reverse=True) if seconds
    )
    return f" in {1000 * sum(seconds for seconds, _ in parts):.1f} ms: {listed}" if listed else ""


def _most(shares: list[float], noun: str, where: str = "") -> str:
    if not shares:
        return ""
    most = max(range(len(shares)), key=shares.__getitem__)
    return f": most of it, {shares[most]:.0%}, on {noun} {most} {where}".rstrip()


def layer_and_head(e: ev.TokenAttention) -> str:
    """Whose attention it is: `layer 3, mean of 6 heads`."""
    layer = f"mean of {plural(e.num_layers, 'layer')}" if e.layer is None else f"layer {e.layer}"
    heads = f"mean of {plural(e.num_heads, 'head')}" if e.head is None else f"head {e.head}"
    if e.layer is None and e.head is None:
        return f"mean of {plural(e.num_layers, 'layer')} and {plural(e.num_heads, 'head')}"
    return f"{layer}, {heads}"


def _explained(e: ev.TokenExplained) -> str:
    if e.beams:
        num_going_on = sum(one.fate == "continues" for one in e.beams)
        return (
            f"{short_name(e.seq_id)} and its siblings: {plural(num_going_on, 'candidate')} go on,"
            f" the best is token {e.token_id} with score {e.beams[0].score:.2f}"
        )
    if e.token_id is None:
        return (
            f"{short_name(e.seq_id)} is about to draw: {plural(e.num_left, 'token')} of"
            f" {e.vocab_size:,} left"
        )
    chosen = e.chosen
    likely = "" if chosen is None else f" with probability {chosen.final_probability:.1%}"
    return (
        f"{short_name(e.seq_id)} chooses token {e.token_id}{likely}:"
        f" {plural(e.num_left, 'token')} of {e.vocab_size:,} left"
    )


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
        + " ".join(f"{one} “{visible(text)}”" for one, text in islice(e.pieces.items(), 12))
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
    ev.TokenAttention: lambda e: (
        f"{short_name(e.seq_id)} attends to {plural(len(e.weights), 'token')} in"
        f" {layer_and_head(e)}{_most(e.weights, 'the token at position')}"
    ),
}
