"""Checks for paged-attention: writes and reads of a small cache, then whole layers."""

from typing import Any

import numpy as np
import torch

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour, nearly
from minivllm.runtime.attention.torch_backend import TorchAttentionBackend
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec

HEAD_SIZE = 8
close = nearly(2e-3)


def step(draw: Draw, *, longest: int, new: int, prefix: int = 0) -> Case:
    """Draw sequences with cached and new tokens.

    Each begins with a prefix of at least `prefix` tokens, in whole blocks; some share the first
    sequence's blocks.
    """

    def sequence(draw: Draw) -> list[Any]:
        return [draw.integer(0, longest), draw.integer(1, new), draw.boolean()]

    return {
        "seqs": draw.list_of(sequence, 1, 4),
        "prefix": prefix,
        "block_size": draw.integer(2, 4),
        "num_kv_heads": draw.integer(1, 2),
        "group": draw.integer(1, 2),
        "cached": draw.boolean(),
        "seed": draw.integer(0, 99),
    }


def _backend(case: Case) -> tuple[Any, ...]:
    """Return a backend, the step, and its queries, keys and values.

    The cache holds the contexts. Slots that this step writes hold 5.0 at first. If `cached`, the
    first row is already in its slot. Unused slots hold NaN.
    """
    torch.set_num_threads(1)
    torch.manual_seed(case["seed"])
    size, heads = case["block_size"], case["num_kv_heads"]
    num_shared = -(-case["prefix"] // size)
    lengths = [num_shared * size + before + new for before, new, _ in case["seqs"]]
    free = torch.randperm(sum(-(-length // size) for length in lengths) + 2).tolist()
    tables: list[list[int]] = []
    for length, (_, _, shares) in zip(lengths, case["seqs"], strict=True):
        table = list(tables[0][:num_shared]) if tables and shares else []
        tables.append(table + [free.pop() for _ in range(-(-length // size) - len(table))])
    spec = KVCacheSpec(1, heads, HEAD_SIZE, size, torch.float32)
    num_blocks = len(free) + sum(map(len, tables))
    backend = TorchAttentionBackend(spec, num_blocks, torch.device("cpu"))
    cache = backend.kv_caches[0].fill_(torch.nan)
    slots: list[int] = []
    starts = [length - new for length, (_, new, _) in zip(lengths, case["seqs"], strict=True)]
    for number, table in enumerate(tables):
        for position in range(lengths[number]):
            block_id, offset = table[position // size], position % size
            if position < starts[number] and cache[block_id, offset].isnan().any():
                cache[block_id, offset] = torch.randn(2 * heads, HEAD_SIZE)
            if position >= starts[number]:
                slots.append(block_id * size + offset)
    num_tokens = len(slots)
    new_key, new_value = torch.randn(2, num_tokens, heads, HEAD_SIZE)
    cache.flatten(0, 1)[slots] = 5.0  # what another request has left there
    if case["cached"]:  # the first row's token is in the cache already: it is not written again
        cache.flatten(0, 1)[slots[0]] = torch.cat((new_key[0], new_value[0]))
        slots[0] = -1
    padded = np.zeros((len(tables), max(map(len, tables))), dtype=np.int64)
    for number, table in enumerate(tables):
        padded[number, : len(table)] = table
    loc = np.cumsum([0, *(new for _, new, _ in case["seqs"])])
    metadata = backend.build(
        CommonAttentionMetadata(loc, np.array(starts), padded, np.array(slots))
    )
    query = torch.randn(num_tokens, heads * case["group"], HEAD_SIZE)
    return backend, metadata, query, new_key, new_value


def _numbers(tensor: Any) -> str:
    return "| " + " ".join(f"{value:.4f}" for value in tensor.flatten().tolist())


def _tell_layer(case: Case) -> Lines:
    backend, metadata, query, key, value = _backend(case)
    inputs = [tensor.clone() for tensor in (query, key, value)]
    unrotated = key.new_ones(1, 1, HEAD_SIZE), key.new_zeros(1, 1, HEAD_SIZE)  # an angle of zero
    output = backend.forward(0, query, key, value, unrotated, metadata)
    buckets = [len(bucket.mask) for bucket in metadata.decodes]
    yield (
        f"{len(metadata.chunks)} chunks, buckets of {buckets} decodes, {len(metadata.spans)} spans"
    )
    for row, heads in enumerate(output):
        yield f"row {row} {_numbers(heads)}"
    same = all((a == b).all() for a, b in zip(inputs, (query, key, value), strict=True))
    yield f"queries, keys and values are unchanged: {bool(same)}"


@behaviour(task=1, cases=lambda draw: step(draw, longest=6, new=3), examples=25)
def writes(case: Case) -> Lines:
    """every token's key and value go into its slot, and nothing else is written

    Which rows are written, and into which slots? In which order are a token's keys and values in
    the cache?
    """
    backend, metadata, _, key, value = _backend(case)
    backend._write(backend.kv_caches[0], key, value, metadata)
    for block_id, block in enumerate(backend.kv_caches[0]):
        for offset, token in enumerate(block):
            yield f"block {block_id}, offset {offset} {_numbers(token.nan_to_num(9.0))}"


@behaviour(
    task=2,
    cases=lambda draw: {
        **step(draw, longest=6, new=3),
        "blocks": draw.list_of(lambda d: d.integer(0, 99), 1, 3),
        "num_seqs": draw.integer(1, 2),
        "padding": draw.choice([None, 1, 2, 3]),
    },
    examples=25,
)
def reads(case: Case) -> Lines:
    """blocks are read in the order of the table, and padding is set to zero

    The gathered tokens are ordered by sequence, then by block. Where do the keys of a head begin,
    and where do its values begin?
    """
    # Read arbitrary blocks. The last `padding` tokens of each sequence are padding.
    backend, _metadata, _, _key, _value = _backend(case)
    cache = backend.kv_caches[0].nan_to_num_(9.0)
    ids = torch.tensor(
        [
            (block + number) % len(cache)
            for number in range(case["num_seqs"])
            for block in case["blocks"]
        ]
    )
    num_tokens = len(case["blocks"]) * case["block_size"]
    padding = None
    if case["padding"] is not None:
        ends = [(1 + number) * num_tokens for number in range(case["num_seqs"])]
        padding = torch.tensor(
            [end - 1 - i for end in ends for i in range(min(case["padding"], num_tokens))]
        )
    keys, values = backend._read(cache, ids, case["num_seqs"], padding)
    yield (
        f"blocks {ids.tolist()} of {case['num_seqs']} sequences: keys {list(keys.shape)}, values"
        f" {list(values.shape)}"
    )
    for number in range(case["num_seqs"]):
        for head in range(case["num_kv_heads"]):
            yield f"sequence {number}, head {head}, keys {_numbers(keys[number, head])}"
            yield f"sequence {number}, head {head}, values {_numbers(values[number, head])}"


@behaviour(task=3, cases=lambda draw: step(draw, longest=20, new=1), examples=25, agree=close)
def decodes(case: Case) -> Lines:
    """a decode attends to its own context and nothing else

    A row with NaN has read slots that no sequence has written. A wrong row without NaN has read
    another sequence's blocks, or has no mask.
    """
    yield from _tell_layer(case)


@behaviour(
    task=4,
    cases=lambda draw: {**step(draw, longest=9, new=4, prefix=draw.choice([0, 130]))},
    examples=25,
    agree=close,
)
def spans(case: Case) -> Lines:
    """attention to shared context is merged into each row's result

    Look at the loop over chunks. Here the span is one sequence, and every row is a query. How many
    tokens does the span have, and which arguments does merge take?
    """
    # A layer with prefill chunks after cached context, sometimes with a long shared prefix.
    yield from _tell_layer(case)
