"""The README's examples as tests, for `pytest visible_test.py`."""

from scheduler import Scheduler

from minivllm.lessons.checker.cases.manager_operations import manager_of, request_of
from minivllm.lessons.checker.cases.manager_operations import scheduler_of as any_scheduler_of


def scheduler_of(budget, num_blocks=32, max_num_seqs=4):
    options = {"max_num_seqs": max_num_seqs, "max_num_batched_tokens": budget}
    return any_scheduler_of(manager_of(num_blocks), 64, Scheduler, **options)


def add(scheduler, num_tokens):
    scheduler.add_request(request_of(len(scheduler.requests), list(range(num_tokens))))


def step(scheduler):
    """Run one step and return each request's tokens. Sampling sequences get a token."""
    plan = scheduler.schedule(now=0.0)
    for item in plan.scheduled:
        for sequence in item.sampling:
            sequence.append_token(7)
    return {item.sequence.request.request_id: item.num_tokens for item in plan.scheduled}


def test_those_who_write_come_first_and_prompts_get_what_is_left():
    scheduler = scheduler_of(budget=8)
    add(scheduler, 2)
    add(scheduler, 2)
    assert step(scheduler) == {"r0": 2, "r1": 2}
    add(scheduler, 20)
    add(scheduler, 3)
    assert step(scheduler) == {"r0": 1, "r1": 1, "r2": 6}
    assert step(scheduler) == {"r0": 1, "r1": 1, "r2": 6}
    assert step(scheduler) == {"r0": 1, "r1": 1, "r2": 6}
    assert step(scheduler) == {"r0": 1, "r1": 1, "r2": 2, "r3": 3}


def test_who_waits_knows_why():
    scheduler = scheduler_of(budget=8, max_num_seqs=1)
    add(scheduler, 2)
    add(scheduler, 2)
    step(scheduler)
    assert scheduler.waiting.peek().deferred == ("max_num_seqs", 1, 0)


def test_nobody_overtakes_the_first_who_does_not_fit():
    scheduler = scheduler_of(budget=32, num_blocks=4)
    add(scheduler, 8)
    add(scheduler, 12)
    add(scheduler, 2)
    assert step(scheduler) == {"r0": 8}


def test_nobody_comes_in_when_somebody_was_preempted():
    scheduler = scheduler_of(budget=32, num_blocks=4)
    add(scheduler, 8)
    add(scheduler, 8)
    step(scheduler)
    add(scheduler, 1)
    assert step(scheduler) == {"r0": 1}
    assert scheduler.waiting.peek().request.request_id == "r1"
    assert scheduler.waiting.peek().deferred[0] == "preempted_this_step"
