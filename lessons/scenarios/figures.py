"""Three numbers about a scenario's run, shown in large digits over the sentences of `stories`."""

from collections.abc import Callable

from minivllm.lessons.scenarios.facts import RunFacts
from minivllm.lessons.scenarios.scenario import Scenario
from minivllm.text import plural
from minivllm.tui.context import Figure


def figures_of(scenario: Scenario, facts: RunFacts) -> tuple[Figure, ...]:
    return tuple(
        Figure(f"{number:,}" if isinstance(number, int) else number, label)
        for number, label in _FIGURES[scenario.name](facts)
    )


_Numbers = tuple[tuple[int | str, str], ...]


def _shared_prefix(facts: RunFacts) -> _Numbers:
    counters = facts.fold.counters
    hits, asked = counters.prefix_cache_hits, counters.prefix_cache_queries
    return (
        (f"{hits / max(asked, 1):.0%}", "of prompt tokens from the cache"),
        (sum(facts.hits_per_hash.values()), f"hits on {plural(len(facts.hits_per_hash), 'block')}"),
        (hits, f"of {asked:,} tokens not computed"),
    )


def _burst(facts: RunFacts) -> _Numbers:
    busy = facts.slots_busy_while_waiting / max(facts.steps_with_waiting, 1)
    return (
        (facts.slot_handovers, "slots handed over"),
        (f"{busy:.1f}", f"of {facts.fold.header.max_num_seqs} slots busy in the rush"),
        (_tokens_per_step(facts), "tokens a step"),
    )


def _long_and_short(facts: RunFacts) -> _Numbers:
    return (
        (
            max((len(request.chunks) for request in facts.requests.values()), default=0),
            "chunks of one prompt",
        ),
        (facts.mixed_steps, "steps for prompts and answers"),
        (facts.missed_turns, "turns missed by answers"),
    )


def _memory_pressure(facts: RunFacts) -> _Numbers:
    counters = facts.fold.counters
    return (
        (counters.num_preemptions, "preemptions"),
        (counters.resumed_hit_tokens, "of their tokens still cached"),
        (facts.recomputed_tokens, "tokens computed again"),
    )


def _two_memories(facts: RunFacts) -> _Numbers:
    counters = facts.fold.counters
    return (
        (counters.stored_blocks, "blocks copied to the host"),
        (counters.external_prefix_cache_hits, "tokens loaded, not computed"),
        (counters.evicted_blocks, "evictions"),
    )


def _parallel_sampling(facts: RunFacts) -> _Numbers:
    return ((facts.fold.counters.forked_sequences, "forks"), *_sharing(facts))


def _beams(facts: RunFacts) -> _Numbers:
    return ((facts.pruned_beams, "beams were pruned"), *_sharing(facts))


def _speculation(facts: RunFacts) -> _Numbers:
    counters = facts.fold.counters
    accepted, drafts = (
        counters.spec_decode_num_accepted_tokens,
        counters.spec_decode_num_draft_tokens,
    )
    return (
        (f"{accepted / max(drafts, 1):.0%}", f"of {plural(drafts, 'draft')} right"),
        (accepted, "tokens without their own step"),
        (_tokens_per_step(facts), "tokens a step"),
    )


def _structured(facts: RunFacts) -> _Numbers:
    formed = sum(request.form is not None for request in facts.requests.values())
    return (
        (formed, f"of {plural(len(facts.requests), 'request')} with a grammar"),
        (facts.num_forced, "forced, without a step"),
        (_tokens_per_step(facts), "tokens a step"),
    )


def _sharing(facts: RunFacts) -> _Numbers:
    most = facts.most_saved
    saved = 0.0 if most is None else most.saved_by_sharing
    return (
        (facts.fold.counters.copied_blocks, "block copies"),
        (f"{saved:.0%}", "of memory saved at best"),
    )


def _tokens_per_step(facts: RunFacts) -> str:
    return f"{facts.fold.counters.generation_tokens / max(facts.fold.step, 1):.1f}"


_FIGURES: dict[str, Callable[[RunFacts], _Numbers]] = {
    "shared-prefix": _shared_prefix,
    "burst": _burst,
    "long-and-short": _long_and_short,
    "memory-pressure": _memory_pressure,
    "two-memories": _two_memories,
    "parallel-sampling": _parallel_sampling,
    "beams": _beams,
    "speculation": _speculation,
    "structured": _structured,
    "capstone": _memory_pressure,
}
