"""Reasons and events in words: one table for the dashboard and for the player on the site.

`cli/recordings/bundle.py` makes `labels.js` of this table, so both say
the same. A phrase has facts in braces: `{free}` is a number, `{need:block}` is "1 block" or
"2 blocks".
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from minivllm.text import plural

PHRASES: Mapping[str, str] = MappingProxyType(
    {
        # Why a sequence was not admitted, in a list. A second form has the name of its condition.
        "defer.no_blocks": "needs {need:block}, {free} free",
        "defer.token_budget": "token budget used",
        "defer.token_budget.free": "needs {need:token}, {free} of the budget left",
        "defer.max_num_seqs": "all slots taken",
        "defer.max_num_seqs.limit": "all {limit:slot} taken",
        "defer.max_num_seqs.free": "needs {need:slot}, {free} free",
        "defer.preempted_this_step": "preemption this step",
        "defer.grammar_not_compiled": "grammar not compiled yet",
        "defer.no_contiguous_run": "needs {need:contiguous block}, longest run {free}",
        "defer.static_batch": "the previous batch has {need:sequence} left",
        "defer.batch_delay": "batch not full: {free} of {need} have arrived",
        # The same, after the sequence's name in a sentence.
        "waits.no_blocks": "needs {need:block} with {free} free",
        "waits.token_budget": "found no budget left",
        "waits.token_budget.free": "needs {need:token} at once with {free} of the budget left",
        "waits.max_num_seqs": "needs {need:batch slot} with {free} of {limit} free",
        "waits.preempted_this_step": "was not considered in a step that preempted a sequence"
        " ({need:block} needed, {free} free)",
        "waits.grammar_not_compiled": "waits for its grammar, which is not compiled yet",
        "waits.no_contiguous_run": "needs {need:contiguous block}, longest run {free}",
        "waits.static_batch": "waits: the previous batch has {need:sequence} left",
        "waits.batch_delay": "waits for a full batch: {free} of {need} sequences have arrived",
        # Why a victim was preempted, after the name of the sequence that needed its blocks.
        "cause.failed": "failed before it wrote a shared block",
        "cause.slot": "needed a batch slot",
        "cause.blocks": "needed {need:block} with {free} free",
        # Why a lookup in the prefix cache found no block.
        "miss.caching_off": "prefix caching is off",
        "miss.prompt_shorter_than_a_block": "prompt shorter than a block",
        "miss.never_seen": "never seen",
        "miss.evicted": "it was evicted",
        "miss.prompt_logprobs": "prompt log-probabilities were requested",
        # How a sequence ended; `when` is "in step 12 with 40 tokens, including its prompt".
        "end.stop": "finished {when}: the model sampled an end token, or its text reached a stop"
        " string",
        "end.length": "ended {when}, at its token limit",
        "end.abort": "was aborted {when}",
        # A waiting sequence that nothing keeps out any more.
        "queue.new": "new",
        "queue.behind": "behind {name}",
        "queue.slot": "a slot is free now: next step",
    }
)


class EventWords(NamedTuple):
    """A sentence about an event, after the name of its sequence."""

    verb: str
    """The ids of the blocks follow."""
    after: str
    """The rest of the sentence."""
    style: str
    """`good`, `warn`, `bad`, `accent`, `text` or `muted`."""


EVENT_WORDS: Mapping[str, EventWords] = MappingProxyType(
    {
        "request.arrived": EventWords("arrives", ", {tokens:prompt token}", "text"),
        "request.admitted": EventWords("enters slot {slot}", "", "good"),
        "request.admitted.cached": EventWords(
            "enters slot {slot}", ", {cached} tokens cached", "good"
        ),
        "request.resumed": EventWords("resumes in slot {slot}", "", "good"),
        "request.resumed.cached": EventWords(
            "resumes in slot {slot}", ", {cached} tokens cached", "good"
        ),
        "request.deferred": EventWords("waits", ": {reason}", "warn"),
        "request.preempted": EventWords("is preempted", ": {victim_of} {reason}", "bad"),
        "request.forked": EventWords("is forked from {parent}", ", blocks shared", "good"),
        "request.beam_pruned": EventWords("is pruned", ": others are better", "warn"),
        "request.beam_pruned.complete": EventWords(
            "is complete", ": one of the best texts so far", "good"
        ),
        "request.beams_found": EventWords("ends its search", ": {texts:text} found", "good"),
        "request.finished": EventWords("finishes", " by itself", "good"),
        "request.finished.length": EventWords("finishes", " at its token limit", "good"),
        "request.aborted": EventWords("is aborted", "", "bad"),
        "request.aborted.error": EventWords("fails", "", "bad"),
        "block.allocated": EventWords("takes", "", "text"),
        "block.hashed": EventWords("fills", ", now in the prefix cache", "muted"),
        "block.hit": EventWords("reuses", ", already computed", "good"),
        "block.copied": EventWords("copies shared block {src} to {dst}", "", "accent"),
        "block.missed": EventWords("finds no cached block {logical}", ": {reason}", "muted"),
        "block.released": EventWords("releases", "", "muted"),
        "block.freed": EventWords("freed", ", empty", "muted"),
        "block.freed.tail": EventWords("freed", ", still cached", "muted"),
        "block.evicted": EventWords("loses", ", evicted", "warn"),
        "draft.verified": EventWords("keeps no draft", "", "warn"),
        "draft.verified.some": EventWords("keeps {kept:draft}", "", "good"),
        "engine.option_changed": EventWords("{name} is now {value}", ", it was {old}", "accent"),
        "invariant.violated": EventWords("INVARIANT {name} violated", ": {detail}", "bad"),
        "log.gap": EventWords("{lost:event} lost", ": what follows may be wrong", "bad"),
    }
)


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


def event_words(key: str, **facts: int | str) -> EventWords:
    verb, after, style = EVENT_WORDS[key]
    return EventWords(fill_in(verb, **facts), fill_in(after, **facts), style)
