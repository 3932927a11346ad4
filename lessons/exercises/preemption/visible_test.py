"""The README's examples as tests, for `pytest visible_test.py`."""

from scheduler import Scheduler

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request, RequestStatus
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.events.bus import EventBus
from minivllm.sampling_params import SamplingParams


def two_that_run():
    """A scheduler with two blocks of four tokens; ada and ben have one each and need another."""
    bus = EventBus(VirtualClock())
    manager = KVCacheManager(BlockPool(2, bus), block_size=4, enable_prefix_caching=False, bus=bus)
    config = EngineConfig(max_num_seqs=4, max_num_batched_tokens=16)
    scheduler = Scheduler(config, manager, max_model_len=8, bus=bus)
    for name in ("ada", "ben"):
        scheduler.add_request(Request(name, [1, 2, 3, 4], SamplingParams()))
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
