"""The README's examples as tests, for `pytest visible_test.py`."""

from scheduler import Scheduler

from minivllm.core.request import RequestStatus
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.lessons.checker.cases.manager_operations import manager_of, request_of, scheduler_of


def two_that_run():
    """A scheduler with two blocks of four tokens; ada and ben have one each and need another."""
    options = {"max_num_seqs": 4, "max_num_batched_tokens": 16}
    scheduler = scheduler_of(manager_of(2), 8, Scheduler, **options)
    for number in range(2):
        scheduler.add_request(request_of(number, [1, 2, 3, 4]))
    scheduler.schedule(now=0.0)
    for sequence in scheduler.running:
        sequence.append_token(5)
    return scheduler, *scheduler.running


def test_the_newest_gives_way():
    scheduler, ada, ben = two_that_run()
    plan = SchedulerOutput(2, 16)
    shortage = scheduler._make_room(plan, ada, 5)
    assert (shortage.need, shortage.free) == (1, 0)
    assert plan.preempted == [ben]
    assert len(ada.block_table) == 2


def test_a_victim_keeps_its_tokens_and_nothing_else():
    scheduler, ada, ben = two_that_run()
    scheduler._make_room(SchedulerOutput(2, 16), ada, 5)
    assert ben.token_ids == [1, 2, 3, 4, 5]
    assert (ben.block_table, ben.slot, ben.num_computed_tokens) == ([], None, 0)
    assert ben.status is RequestStatus.PREEMPTED
    assert list(scheduler.waiting) == [ben]


def test_whoever_is_the_newest_gives_way_to_the_others():
    scheduler, ada, ben = two_that_run()
    plan = SchedulerOutput(2, 16)
    scheduler._make_room(plan, ben, 5)
    assert plan.preempted == [ben]
    assert scheduler.running == [ada]
