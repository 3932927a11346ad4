"""Checks for hash-chain: a manager alone with prompts over two letters, then the whole engine."""

from typing import Any

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.manager_operations import manager_of, manager_state, sequence_of
from minivllm.lessons.checker.cases.traces import draw_request, draw_trace, run_trace

SALTS = (None, "red", "blue")


def _letter(draw: Draw) -> int:
    return draw.integer(0, 1)


def _prompt(draw: Draw) -> dict[str, Any]:
    parts = [draw.list_of(_letter, 0, 6) for _ in range(2)]
    # With only two letters, many prompts agree, often from the beginning.
    return {"tokens": [0, *parts[0], *parts[1]], "salt": draw.choice(SALTS)}


def prompts(draw: Draw) -> Case:
    """Prompts, one after the other, and a pool that cannot keep them all."""
    return {
        "block_size": draw.integer(1, 3),
        "num_blocks": draw.integer(13, 18),
        "prompts": draw.list_of(_prompt, 1, 8),
    }


def alike(draw: Draw) -> Case:
    """A trace with prefix caching, and blocks small enough for prompts to share some."""
    return draw_trace(draw, draw_request, block_size=2, enable_prefix_caching=True)


@behaviour(
    task=1,
    cases=lambda draw: {
        "block_size": draw.integer(1, 4),
        "prompts": draw.list_of(_prompt, 1, 4),
        "ends": draw.list_of(lambda d: d.integer(0, 13), 1, 4),
    },
)
def names(case: Case) -> Lines:
    """a full block's hash depends on all tokens up to its end, and on the salt

    Compare the hashes of two blocks with equal tokens at different positions, and of two customers'
    first blocks.
    """
    manager = manager_of(1, case["block_size"], enable_prefix_caching=True)
    for number, prompt in enumerate(case["prompts"]):
        sequence = sequence_of(number, prompt["tokens"], prompt["salt"])
        for end in case["ends"]:  # also fewer tokens than before: hashes are kept
            end = min(end, len(prompt["tokens"]))
            manager._extend_hashes(sequence, end)
            hashes = [block_hash.hex()[:6] for block_hash in sequence.block_hashes]
            yield (
                f"{sequence.token_ids}, salt {prompt['salt']}: hashes of the first {end} tokens"
                f" {hashes}"
            )


@behaviour(task=2, cases=prompts, examples=100)
def finds(case: Case) -> Lines:
    """a lookup finds the longest cached prefix, and leaves at least one token to compute

    Follow the chain from its first hash. What can still be used after the first missing block?
    """
    # Look up, compute and free each prompt; parts of earlier prompts may be evicted by then.
    manager = manager_of(case["num_blocks"], case["block_size"], enable_prefix_caching=True)
    for number, prompt in enumerate(case["prompts"]):
        sequence = sequence_of(number, prompt["tokens"], prompt["salt"])
        found = manager.get_computed_blocks(sequence)
        ids = [block.block_id for block in found.blocks]
        yield (
            f"{prompt['tokens']}, salt {prompt['salt']}: blocks {ids}, {found.num_cached_tokens}"
            f" cached, computing starts at {found.num_computed_tokens};"
            f" {manager_state(manager, [sequence])}"
        )
        # The pool evicts the tail of a cached prefix now and then. Also evict a block in the
        # middle of a chain.
        manager.allocate_slots(sequence, sequence.num_tokens, found)
        manager.cache_full_blocks(sequence, sequence.num_tokens)
        manager.free(sequence)
        forgotten = manager.pool.blocks[(7 * number) % case["num_blocks"]]
        manager.pool.take_free_block(forgotten)
        manager.pool.release(forgotten)


@behaviour(task=4, cases=alike, trace=True)
def shares(case: Case) -> Lines:
    """the engine emits the same events when requests share prefixes

    Open it with `minivllm exercise diff`. At the first difference, which block does one side hit
    and the other not?
    """
    yield from run_trace(case)


@behaviour(
    task=4,
    cases=lambda draw: draw_trace(
        draw, draw_request, num_blocks=draw.integer(5, 7), block_size=2, enable_prefix_caching=True
    ),
    trace=True,
)
def forgets(case: Case) -> Lines:
    """the engine emits the same events when prefixes are evicted because blocks are short

    A preempted sequence keeps its hashes and looks them up again. What does it find?
    """
    yield from run_trace(case)
