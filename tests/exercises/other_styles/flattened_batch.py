"""Loops for comprehensions, prefix sums by definition, and whole tables that are sliced."""

from minivllm.lessons.sketches.flat_batch import query_start_loc, seq_lens


def flat_token_ids(chunks):
    rows = []
    for chunk in chunks:
        for position in range(seq_lens([chunk])[0] - chunk.num_tokens, seq_lens([chunk])[0]):
            rows.append(chunk.token_ids[position])
    return rows


def flat_positions(chunks):
    rows = []
    for chunk in chunks:
        rows.extend(range(chunk.num_computed_tokens, chunk.num_computed_tokens + chunk.num_tokens))
    return rows


def query_start_loc_(chunks):
    return [sum(one.num_tokens for one in chunks[:number]) for number in range(len(chunks) + 1)]


def seq_lens_(chunks):
    return list(map(lambda one: sum((one.num_tokens, one.num_computed_tokens)), chunks))  # noqa: C417


def flat_slot_mapping(chunks, block_size):
    slots = []
    for chunk in chunks:
        table = [
            block_id * block_size + offset
            for block_id in chunk.block_table
            for offset in range(block_size)
        ]
        slots += table[chunk.num_computed_tokens :][: chunk.num_tokens]
    return slots


def sampling_rows(chunks):
    rows, row = [], -1
    for chunk in chunks:
        row += chunk.num_tokens
        if not chunk.token_ids[chunk.num_computed_tokens + chunk.num_tokens :]:
            rows.append(row)
    return rows


def slots_read(chunks, block_size, row):
    for number, chunk in enumerate(chunks):
        start = query_start_loc(chunks)[number]
        if row < start + chunk.num_tokens:
            break
    slots = []
    for position in range(chunk.num_computed_tokens + row - start + 1):
        index, offset = divmod(position, block_size)
        slots.append(chunk.block_table[index] * block_size + offset)
    return slots
