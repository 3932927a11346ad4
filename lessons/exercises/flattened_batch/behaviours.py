"""Checks for flattened-batch: one array after the other, over steps of decodes and chunks."""

from typing import Any

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.shown import flat_batch


def _chunk(draw: Draw) -> dict[str, int]:
    return {
        "computed": draw.choice([0, draw.integer(0, 9)]),
        "tokens": draw.choice([1, draw.integer(1, 6)]),
        "left": draw.choice([0, 0, draw.integer(0, 4)]),
        "shift": draw.integer(0, 9),
    }


def _step(draw: Draw) -> Case:
    return {"block_size": draw.integer(2, 4), "chunks": draw.list_of(_chunk, 1, 4)}


def _chunks(case: Case) -> list[Any]:
    """The chunks of a step. No two sequences share a block, and tables are not in order."""
    chunks, free = [], list(range(40))
    for number, part in enumerate(case["chunks"]):
        end = part["computed"] + part["tokens"]
        # Every token of the step is different, and none equals a position or a row.
        token_ids = [100 * (number + 1) + at for at in range(end + part["left"])]
        num_blocks = -(-end // case["block_size"])
        table = [free.pop((3 + 7 * part["shift"]) % len(free)) for _ in range(num_blocks)]
        chunks.append(flat_batch.ScheduledChunk(token_ids, part["computed"], part["tokens"], table))
    return chunks


def _told(chunks: list[Any]) -> str:
    return "; ".join(
        f"{len(chunk.token_ids)} known tokens, {chunk.num_computed_tokens} computed,"
        f" {chunk.num_tokens} in this step, table {list(chunk.block_table)}"
        for chunk in chunks
    )


@behaviour(task=1, cases=_step)
def token_ids(case: Case) -> Lines:
    """each row has the next token of its sequence

    Where in token_ids does the step begin for this sequence, and where does it end?
    """
    chunks = _chunks(case)
    known = [chunk.token_ids for chunk in chunks]
    yield f"{_told(chunks)}; known {known}: {list(flat_batch.flat_token_ids(chunks))}"


@behaviour(task=2, cases=_step)
def positions(case: Case) -> Lines:
    """positions are counted in the sequence, not in the batch

    How many tokens of this sequence come before the row's token in its text?
    """
    chunks = _chunks(case)
    yield f"{_told(chunks)}: positions {list(flat_batch.flat_positions(chunks))}"


@behaviour(task=3, cases=_step)
def starts(case: Case) -> Lines:
    """the rows of sequence i are between entries i and i + 1

    In which row does the second sequence begin? And where does the last one end?
    """
    chunks = _chunks(case)
    yield f"{_told(chunks)}: query_start_loc {list(flat_batch.query_start_loc(chunks))}"


@behaviour(task=4, cases=_step)
def lengths(case: Case) -> Lines:
    """a sequence is as long as what was computed before and now

    Count the tokens that have a key and a value after the step.
    """
    chunks = _chunks(case)
    yield f"{_told(chunks)}: seq_lens {list(flat_batch.seq_lens(chunks))}"


@behaviour(task=5, cases=_step)
def slots(case: Case) -> Lines:
    """each row is written to the slot of its position

    Take the position of the row. Which entry of the table, and which place in that block?
    """
    chunks, size = _chunks(case), case["block_size"]
    found = list(flat_batch.flat_slot_mapping(chunks, size))
    yield f"blocks of {size}; {_told(chunks)}: slots {found}"


@behaviour(task=6, cases=_step)
def sampling(case: Case) -> Lines:
    """a token is sampled where the last known token was computed

    Is the token after this row known already? Then nothing needs to be sampled.
    """
    chunks = _chunks(case)
    yield f"{_told(chunks)}: sampling rows {list(flat_batch.sampling_rows(chunks))}"


@behaviour(task=7, cases=_step)
def reads(case: Case) -> Lines:
    """a row reads its own sequence, up to its own token

    Whose row is it, and at which position? Tokens of earlier steps are in the cache, too.
    """
    chunks, size = _chunks(case), case["block_size"]
    yield f"blocks of {size}; {_told(chunks)}"
    for row in range(sum(chunk.num_tokens for chunk in chunks)):
        yield f"row {row} reads the slots {list(flat_batch.slots_read(chunks, size, row))}"


@behaviour(task=7, cases=_step, examples=30)
def arrays(case: Case) -> Lines:
    """all arrays of a step belong together

    The parts pass one by one? Then look for a part that keeps or changes its input.
    """
    chunks = _chunks(case)
    for _ in range(2):  # the second time, nothing may have changed
        for name, entries in flat_batch.flatten(chunks, case["block_size"])._asdict().items():
            yield f"{_told(chunks)}: {name} {list(entries)}"
