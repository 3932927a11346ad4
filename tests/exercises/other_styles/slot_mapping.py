"""Block by block, and not token by token."""

from minivllm.core.block_math import NOT_WRITTEN


def slot_mapping(sequence, start, num_tokens, block_size):
    end = start + num_tokens
    written_from = min(max(start, sequence.num_cached_tokens), end)
    slots = [NOT_WRITTEN] * (written_from - start)
    position = written_from
    while position < end:
        index, offset = divmod(position, block_size)
        count = min(block_size - offset, end - position)
        first = sequence.block_table[index].block_id * block_size + offset
        slots.extend(range(first, first + count))
        position += count
    return slots
