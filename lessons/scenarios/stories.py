"""Three sentences about a scenario's run, shown at its end.

Each sentence uses only counted facts of that run. So it is true even if the expected effect did not
happen (with a larger pool, without caching, after an early stop).
"""

import json
from collections.abc import Callable

from minivllm.lessons.scenarios.facts import RequestFacts, RunFacts
from minivllm.lessons.scenarios.scenario import Scenario
from minivllm.text import plural


def tell(scenario: Scenario, facts: RunFacts) -> list[str]:
    return [" ".join(sentence.split()) for sentence in _STORIES[scenario.name](facts)]


def _shared_prefix(facts: RunFacts) -> list[str]:
    counters = facts.fold.counters
    finders = [request for request in facts.requests.values() if request.num_cached_tokens]
    if not finders:
        first = """No request found anything in the prefix cache, so each computed the system prompt
        for itself."""
    else:
        blocks = len(facts.hits_per_hash)
        computed = sum(facts.times_hashed[block_hash] for block_hash in facts.hits_per_hash)
        how_often = (
            "each computed once" if computed == blocks else f"computed {_times(computed)} in all"
        )
        first = f"""{_of(len(finders), facts)} began with tokens that were in the cache already:
        {plural(blocks, "block")} of {facts.fold.header.block_size} tokens, {how_often}, were hit
        {_times(sum(facts.hits_per_hash.values()))}."""
    return [
        first,
        f"""Of {plural(counters.prefix_cache_queries, "prompt token")} the cache gave
        {counters.prefix_cache_hits:,}, so
        {counters.prefix_cache_queries - counters.prefix_cache_hits:,} went through the model.""",
        (
            f"""{facts.hits_on_free_blocks:,} of these hits took a block from the free queue: no
            request held it any more, but a freed block keeps its contents until it is reused."""
            if facts.hits_on_free_blocks
            else """Every block that was hit was still held by another request: none was taken from
            the free queue."""
        ),
    ]


def _burst(facts: RunFacts) -> list[str]:
    slots = facts.fold.header.max_num_seqs
    waited = [
        (request.steps_waited, request.name)
        for request in facts.requests.values()
        if request.steps_waited
    ]
    if waited:
        longest, name = max(waited)
        first = f"""{_of(len(waited), facts)} had to wait for one of the {slots} slots, {name}
        longest: {plural(longest, "step")}."""
        mean = facts.slots_busy_while_waiting / max(facts.steps_with_waiting, 1)
        second = f"""A slot went from a finished request to a waiting one
        {_times(facts.slot_handovers)}; while any request waited, {mean:.1f} of {slots} slots were
        busy."""
    else:
        first = f"No request that got a slot had to wait for it: there were {slots}."
        second = f"A slot was used again {_times(facts.slot_handovers)}."
    return [first, second, _tokens_per_step(facts)]


def _long_and_short(facts: RunFacts) -> list[str]:
    budget = facts.fold.header.max_num_batched_tokens
    longest = max(
        facts.requests.values(), key=lambda request: request.num_prompt_tokens, default=None
    )
    if longest is None or not longest.chunks:
        first = "The long prompt had not arrived yet."
    elif len(longest.chunks) == 1:
        first = f"""The longest prompt, {_prompt(longest)}, fitted into one step's budget of
        {budget} tokens."""
    else:
        first = f"""The prompt of {_prompt(longest)}, was too long for a step's budget of {budget}:
        it went through in {len(longest.chunks)} chunks, of {min(longest.chunks)} to
        {max(longest.chunks)} tokens."""
    missed = (
        "and no running answer missed a step"
        if facts.missed_turns == 0
        else f"and running answers missed a step {_times(facts.missed_turns)}"
    )
    return [
        first,
        f"""{plural(facts.mixed_steps, "step")} worked on a prompt and on the next tokens of answers
        together, {missed}.""",
        _tokens_per_step(facts),
    ]


def _memory_pressure(facts: RunFacts) -> list[str]:
    counters, total = facts.fold.counters, len(facts.fold.blocks)
    victims = [request for request in facts.requests.values() if request.num_preemptions]
    evicted = plural(counters.evicted_blocks, "freed block")
    if not victims:
        first = f"Nobody was preempted: {total} blocks were enough."
        second = "So nothing had to be computed twice."
    else:
        who = "newest" if facts.fold.header.scheduling_policy == "fcfs" else "least important"
        names = ", ".join(
            f"{request.name} {_times(request.num_preemptions)}" for request in victims
        )
        first = f"""{_times(counters.num_preemptions).capitalize()} a sequence needed a block and
        none of the {total} was free: the {who} lost all of its own ({names})."""
        second = f"""Resumed sequences found {plural(counters.resumed_hit_tokens, "token")} still in
        the cache and computed {facts.recomputed_tokens:,} again: a preemption costs time, but no
        word of the text."""
        if not counters.resumed_hit_tokens + facts.recomputed_tokens:
            second = "None of them had resumed when the run ended."
    return [
        first,
        second,
        f"""{_of(counters.finished_requests, facts)} finished; {evicted} had to be reused while
        still full of cached tokens.""",
    ]


def _two_memories(facts: RunFacts) -> list[str]:
    counters = facts.fold.counters
    return [
        f"""{plural(counters.stored_blocks, "block")} had been copied to the host's memory before
        {plural(counters.evicted_blocks, "cached block")} had to be reused.""",
        f"""{plural(counters.external_prefix_cache_hits, "token")} came back from there, and did not
        go through the model again.""",
        """On a CPU both memories are the same RAM, so a copy costs little here. Only the virtual
        clock models the link between a host and a GPU.""",
    ]


def _parallel_sampling(facts: RunFacts) -> list[str]:
    forked = [request for request in facts.requests.values() if request.num_sequences > 1]
    if not forked:
        return [
            "No prompt had been computed to its end, so nothing was forked yet.",
            _copies(facts, "sample"),
            _saved(facts),
        ]
    size = facts.fold.header.block_size
    part_full = sum(request.num_prompt_tokens % size > 0 for request in forked)
    if part_full == len(forked):
        last = "the last one partly full"
    else:
        last = "some partly full" if part_full else "all full, so that none has to be copied"
    tokens = sum(request.num_prompt_tokens for request in forked)
    samples = sum(request.num_sequences for request in forked)
    first = f"""{_prompts(forked)} ({plural(tokens, "token")}) went through the model once for
    {samples} samples: {plural(facts.fold.counters.forked_sequences, "fork")} began with all blocks
    of the first sample, {last}."""
    return [first, _copies(facts, "sample"), _saved(facts)]


def _beams(facts: RunFacts) -> list[str]:
    searches = [request for request in facts.requests.values() if request.num_sequences > 1]
    counters = facts.fold.counters
    if not searches:
        first = "No prompt had been computed to its end, so there were no beams yet."
    else:
        born = len(searches) + counters.forked_sequences
        first = f"""{_searches(searches)} forked {_times(counters.forked_sequences)}: of
        {plural(born, "beam")}, never more than {max(request.num_together for request in searches)}
        at once, {facts.pruned_beams} were pruned."""
    return [first, _copies(facts, "beam"), _saved(facts)]


def _speculation(facts: RunFacts) -> list[str]:
    counters = facts.fold.counters
    drafts, accepted = (
        counters.spec_decode_num_draft_tokens,
        counters.spec_decode_num_accepted_tokens,
    )
    if not drafts:
        return [
            "No token was drafted, so a step wrote one token of each text.",
            "A draft needs words that were there before.",
            _tokens_per_step(facts),
        ]
    totals = {
        name: tuple(map(sum, zip(*steps, strict=True))) for name, steps in facts.drafts.items()
    }
    best = max(totals, key=lambda name: totals[name][1])
    worst = min(totals, key=lambda name: totals[name][1] / totals[name][0])
    each = ", ".join(
        f"{totals[name][1]} of {totals[name][0]} for {name}"
        for name in dict.fromkeys((best, worst))
    )
    return [
        f"""{accepted:,} of {plural(drafts, "draft")} were right ({accepted / drafts:.0%}): {each}.
        A right draft is a token that needs no step of its own.""",
        f"""{plural(counters.spec_decode_num_drafts, "decode")} with drafts wrote
        {1 + accepted / counters.spec_decode_num_drafts:.1f} tokens on average; without drafts, a
        decode writes one.""",
        f"""{plural(drafts - accepted, "draft")} were wrong: their rows went through the model for
        nothing, and their slots were written again. The text is the same as without drafts.""",
    ]


def _structured(facts: RunFacts) -> list[str]:
    ended = facts.finished
    records = [request for request in ended if request.form == "json"]
    prompts = {request.prompt for request in records}
    plain = [request for request in ended if request.form is None and request.prompt in prompts]
    first = "No request with a schema has ended yet."
    if records:
        first = f"""With a schema, {_num_json(records)} of {plural(len(records), "text")} can be
        read as JSON; from the same prompts without one, {_num_json(plain)} of {len(plain)}. A
        grammar checks the form, and not what is true."""
    forced = facts.num_forced
    second = (
        f"""{plural(forced, "token")} had no alternative in the grammar, so
        {"it was" if forced == 1 else "they were"} drafted without the model and verified beside
        other tokens."""
        if forced
        else "No token was forced, so the model wrote each token in a step of its own."
    )
    return [first, second, _tokens_per_step(facts)]


def _num_json(requests: list[RequestFacts]) -> int:
    return sum(is_json(text) for request in requests for text in request.texts)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _copies(facts: RunFacts, what: str) -> str:
    forks, copies = facts.fold.counters.forked_sequences, facts.fold.counters.copied_blocks
    if not copies:
        return (
            f"No block was copied: no {what} was about to write into a block that another one held."
        )
    made = "one block copy" if copies == 1 else f"{copies:,} block copies"
    return f"""{plural(forks, "fork")} cost {made}, each made only when a {what} was about to write
    into a block that another one held, too; its last owner writes in place."""


def _saved(facts: RunFacts) -> str:
    most = facts.most_saved
    if most is None:
        return "No block had two owners while the model ran, so nothing was saved by sharing."
    total, without = len(facts.fold.blocks), most.num_table_entries
    room = f", and there are only {total}" if without > total else ""
    return f"""At best (step {most.step}), sharing saved {most.saved_by_sharing:.0%} of the memory:
    {plural(most.num_blocks_in_use, "block")} held what would take {without} without it{room}."""


def _prompts(requests: list[RequestFacts]) -> str:
    names = " and ".join(request.name for request in requests)
    return f"The prompt of {names}" if len(requests) == 1 else f"The prompts of {names}"


def _capstone(facts: RunFacts) -> list[str]:
    counters = facts.fold.counters
    return [
        f"""{counters.prefix_cache_hits:,} of
        {plural(counters.prefix_cache_queries, "prompt token")} came from the prefix cache, and
        samples copied {plural(counters.copied_blocks, "shared block")} before they wrote.""",
        f"""{plural(facts.mixed_steps, "step")} had prompts and answers together, and the pool was
        too small {_times(counters.num_preemptions)}: preempted sequences computed
        {plural(facts.recomputed_tokens, "token")} again.""",
        _tokens_per_step(facts),
    ]


def _searches(requests: list[RequestFacts]) -> str:
    names = " and ".join(request.name for request in requests)
    return f"The beam search of {names}" if len(requests) == 1 else f"The beam searches of {names}"


def _of(count: int, facts: RunFacts) -> str:
    """3 of 4 -> "3 of 4 requests"; all of them -> "All 4 requests"."""
    total = len(facts.requests)
    return (
        f"All {total} requests" if count == total > 1 else f"{count} of {plural(total, 'request')}"
    )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _prompt(request: RequestFacts) -> str:
    return f"{request.name!r}, {plural(request.num_prompt_tokens, 'token')}"


def _tokens_per_step(facts: RunFacts) -> str:
    tokens, steps = facts.fold.counters.generation_tokens, facts.fold.step
    return f"""{plural(tokens, "token")} were written in {plural(steps, "step")},
    {tokens / max(steps, 1):.1f} a step: one pass of the model serves many."""


_STORIES: dict[str, Callable[[RunFacts], list[str]]] = {
    "shared-prefix": _shared_prefix,
    "burst": _burst,
    "long-and-short": _long_and_short,
    "memory-pressure": _memory_pressure,
    "two-memories": _two_memories,
    "parallel-sampling": _parallel_sampling,
    "beams": _beams,
    "speculation": _speculation,
    "structured": _structured,
    "capstone": _capstone,
}
