"""The README's examples as tests, for `pytest visible_test.py`."""

from scheduler import Scheduler

from minivllm.lessons.checker.cases.manager_operations import manager_of, request_of, scheduler_of


def scheduler(budget, chunked=True):
    options = {"max_num_batched_tokens": budget, "enable_chunked_prefill": chunked}
    return scheduler_of(manager_of(16), 64, Scheduler, max_num_seqs=4, **options)


def ben():
    return request_of(0, list(range(20)))


def test_a_prompt_that_the_cache_has_in_part_gets_what_the_step_has_left():
    sequence = ben().sequences[0]
    assert scheduler(8)._first_chunk(sequence, start=4, budget=7) == 7
    assert scheduler(8)._first_chunk(sequence, start=4, budget=100) == 16


def test_without_chunks_it_is_all_or_nothing():
    sequence, whole = ben().sequences[0], scheduler(64, chunked=False)
    assert whole._first_chunk(sequence, start=4, budget=15) == 0
    assert whole._first_chunk(sequence, start=4, budget=16) == 16


def test_a_prompt_advances_by_its_chunks_and_the_last_one_predicts():
    chunked = scheduler(8)
    chunked.add_request(ben())
    steps = [chunked.schedule(now=0.0).scheduled[0] for _ in range(3)]
    assert [(item.start, item.num_tokens) for item in steps] == [(0, 8), (8, 8), (16, 4)]
    assert [len(item.sampling) for item in steps] == [0, 0, 1]
