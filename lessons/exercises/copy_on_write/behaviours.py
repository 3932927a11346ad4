"""Checks for copy-on-write: forks and writes on a manager alone, then engines with samples.

The tables, owners and copies are reported after each operation, so a block with two writers shows
at once.
"""

from typing import Any

from minivllm.events.recording.lines import encode_event
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.manager_operations import manager_of, sequence_of, table_of
from minivllm.lessons.checker.cases.traces import draw_trace, requests_with_samples, run_trace


def family(draw: Draw) -> Case:
    """A prompt, and forks of its sequence and of one another."""
    return {
        "block_size": draw.integer(2, 4),
        "prompt": draw.integer(1, 9),
        "caching": draw.boolean(),
        "forks": draw.list_of(lambda d: d.integer(0, 3), 1, 3),
        "behind": 0,
        "ahead": draw.boolean(),
        "twin": False,
        "operations": [],
    }


def family_at_any_time(draw: Draw) -> Case:
    """A family that may fork before its prompt is computed: not all hashes are registered yet."""
    return {**family(draw), "behind": draw.integer(0, 4)}


def family_at_work(draw: Draw) -> Case:
    """A family whose members write, fork and end."""

    def operation(draw: Draw) -> list[Any]:
        return [draw.choice(["write", "write", "write", "fork", "end"]), draw.integer(0, 5)]

    parts = [draw.list_of(operation, 0, 8) for _ in range(3)]
    return {
        **family(draw),
        "twin": draw.boolean(),
        "operations": [operation for part in parts for operation in part],
    }


def _tell(case: Case) -> Lines:
    events: list[Any] = []
    manager = manager_of(14, case["block_size"], case["caching"])
    manager._bus.subscribe(events.append)
    size, prompt = case["block_size"], list(range(1, case["prompt"] + 1))
    alive: list[Any] = []

    def state(done: str) -> Lines:
        owners = {block.block_id: block.ref_cnt for block in manager.pool.blocks if block.ref_cnt}
        yield f"{done}; owners {owners}; copies {[tuple(pair) for pair in manager.take_copies()]}"
        for sequence in alive:
            shared = manager.writes_to_shared_block(sequence)
            num_hashed = sum(block.block_hash is not None for block in sequence.block_table)
            yield (
                f"    {sequence.seq_id}: {sequence.num_computed_tokens} tokens in blocks"
                f" {table_of(sequence)}, {num_hashed} of"
                f" {len(sequence.block_hashes)} hashed; writes to a shared block: {shared!r}"
            )
        yield (
            f"    copied so far: {manager.num_copied_blocks}; free: {manager.pool.free_queue.ids()}"
        )
        yield from (f"    {encode_event(event).decode().rstrip()}" for event in events)
        events.clear()

    def fork(parent: Any) -> Lines:
        child = parent.fork()
        manager.fork(parent, child)
        alive.append(child)
        yield from state(f"{parent.seq_id} forks")

    first = sequence_of(0, prompt)
    # If the last block is full, make room for one more token: an empty block, which forks share
    # too.
    manager.allocate_slots(first, len(prompt) + (case["ahead"] and len(prompt) % size == 0))
    manager.get_computed_blocks(first)
    first.num_computed_tokens = max(len(prompt) - case["behind"], 0)
    manager.cache_full_blocks(first, first.num_computed_tokens)
    alive.append(first)
    yield from state(f"{first.num_computed_tokens} tokens of the prompt are computed")
    for index in case["forks"]:
        yield from fork(alive[index % len(alive)])
    if case["twin"]:
        twin = sequence_of(1, prompt)
        computed = manager.get_computed_blocks(twin)
        manager.allocate_slots(twin, len(prompt), computed)
        twin.num_cached_tokens = computed.num_cached_tokens
        twin.num_computed_tokens = computed.num_computed_tokens
        alive.append(twin)
        yield from state("a request with the same prompt is admitted")
        twin.num_computed_tokens = len(prompt)
        manager.cache_full_blocks(twin, len(prompt))
    for number, (kind, index) in enumerate(case["operations"]):
        if not alive:
            return
        sequence = alive[index % len(alive)]
        if kind == "fork" and len(alive) < 5:
            yield from fork(sequence)
        elif kind == "copy" and manager.pool.num_free_blocks:
            manager._copy_on_write(sequence)
            yield from state(f"{sequence.seq_id} copies its last block")
        elif kind == "end":
            alive.remove(sequence)
            manager.free(sequence)
            yield from state(f"{sequence.seq_id} ends")
        elif kind == "write" and sequence.num_tokens < len(prompt) + 2 * size:
            # Every other token is the same for all sequences, so that blocks can get equal hashes.
            sequence.append_token(20 + number % 2 * sequence.index)
            shortage = manager.allocate_slots(sequence, sequence.num_tokens)
            if shortage is not None:
                yield from state(f"{sequence.seq_id} cannot write: {tuple(shortage)}")
                return
            sequence.num_computed_tokens = sequence.num_tokens
            manager.cache_full_blocks(sequence, sequence.num_tokens)
            yield from state(f"{sequence.seq_id} writes token {sequence.num_tokens - 1}")


@behaviour(task=1, cases=family_at_any_time)
def forks(case: Case) -> Lines:
    """a fork shares every block and copies none

    Right after fork, compare the two tables, the owners of each block and the two hash chains.
    """
    yield from _tell(case)


@behaviour(
    task=2,
    cases=lambda draw: {
        **family_at_any_time(draw),
        "twin": True,
        "forks": draw.list_of(lambda d: d.integer(0, 3), 0, 2),
    },
)
def sees_shared_writes(case: Case) -> Lines:
    """only a write to a block with another owner needs a copy

    Which position is written next, which block is it in, and how many owners has that block?
    """
    # Forks, and another request that got the prompt from the prefix cache.
    yield from _tell(case)


@behaviour(task=3, cases=family_at_work, examples=80)
def copies(case: Case) -> Lines:
    """the first writers get a copy, and the last one writes in place

    Follow the shared block. How many owners has it before and after each write, and which tables
    still contain it?
    """
    yield from _tell(case)


@behaviour(
    task=3,
    cases=lambda draw: {
        **family(draw),
        "forks": draw.list_of(lambda d: d.integer(0, 3), 0, 2),
        "operations": [["copy", index] for index in draw.list_of(lambda d: d.integer(0, 3), 1, 5)],
    },
)
def lets_go_last(case: Case) -> Lines:
    """the shared block is released last, after the copy is noted and in the table

    If it is released first and has no other owner, it is free. Which block is popped next, and what
    is copied into which?
    """
    # Copies blocks directly, even with one owner: only this shows the order of operations.
    yield from _tell(case)


@behaviour(
    task=4, cases=lambda draw: draw_trace(draw, requests_with_samples), trace=True, examples=40
)
def serves(case: Case) -> Lines:
    """the engine emits the same events for requests with several samples

    Open it with `minivllm exercise diff` and look at the owners of the prompt's last block at the
    step where the samples diverge.
    """
    yield from run_trace(case)
