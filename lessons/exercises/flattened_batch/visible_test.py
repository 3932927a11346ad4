"""The README's example as tests, for `pytest visible_test.py`."""

import flat_batch

CHUNKS = [
    flat_batch.ScheduledChunk([11, 12, 13, 14, 15, 9], 5, 1, [7, 2]),
    flat_batch.ScheduledChunk([5, 6, 7], 0, 3, [0]),
    flat_batch.ScheduledChunk([1, 2, 4, 6, 3, 8, 5, 5], 4, 2, [3, 5]),
]


def test_each_row_has_one_token():
    assert flat_batch.flat_token_ids(CHUNKS) == [9, 5, 6, 7, 3, 8]


def test_positions_are_counted_in_the_sequence():
    assert flat_batch.flat_positions(CHUNKS) == [5, 0, 1, 2, 4, 5]


def test_the_rows_of_a_sequence_lie_between_two_entries():
    assert flat_batch.query_start_loc(CHUNKS) == [0, 1, 4, 6]


def test_lengths_count_earlier_steps():
    assert flat_batch.seq_lens(CHUNKS) == [6, 3, 6]


def test_slots_follow_the_block_table():
    assert flat_batch.flat_slot_mapping(CHUNKS, 4) == [9, 0, 1, 2, 20, 21]


def test_a_chunk_in_the_middle_of_a_prompt_samples_nothing():
    assert flat_batch.sampling_rows(CHUNKS) == [0, 3]


def test_attention_reads_only_its_own_sequence():
    assert flat_batch.slots_read(CHUNKS, 4, 0) == [28, 29, 30, 31, 8, 9]
    assert flat_batch.slots_read(CHUNKS, 4, 2) == [0, 1]


def test_all_arrays_of_a_step():
    assert flat_batch.flatten(CHUNKS, 4).sampling_rows == [0, 3]
