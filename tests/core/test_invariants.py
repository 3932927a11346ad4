"""Every invariant can fail: each is broken once by hand, and reported by its name."""

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

import pytest
from support.engine.engine_fakes import WatchedEngine

from minivllm.core.block_pool import BlockPool, KVCacheBlock
from minivllm.core.invariants import check_invariants
from minivllm.core.request import RequestStatus, Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import SchedulerOutput


class Scene(NamedTuple):
    """The middle of a step.

    `first` and `second` share a block, `samples` is a chunk of a request with two samples, and one
    sequence waits.
    """

    scheduler: Scheduler
    plan: SchedulerOutput
    first: Sequence
    second: Sequence
    samples: Sequence
    waiting: Sequence
    pool: BlockPool
    shared: KVCacheBlock
    unused: KVCacheBlock

    def violated(self) -> set[str]:
        return {violation.name for violation in check_invariants(self.scheduler, self.plan)}


@pytest.fixture
def scene() -> Scene:
    engine = WatchedEngine(
        num_blocks=30, max_num_seqs=5, max_num_batched_tokens=16, max_model_len=60
    )
    engine.add("first", list(range(6)))
    engine.step()
    engine.add("second", [*range(4), 50, 51])
    engine.add("samples", list(range(60, 80)), n=2)
    engine.add("waiting", list(range(20, 30)), n=3)
    engine.step_phase()
    plan = engine.engine.core.last_plan
    assert check_invariants(engine.scheduler, plan) == []
    first, second, samples = running = engine.scheduler.running
    assert [sequence.seq_id for sequence in running] == ["first.0", "second.0", "samples.0"]
    waiting, blocks = engine.scheduler.waiting.peek(), engine.pool.blocks
    return Scene(
        engine.scheduler, plan, first, second, samples, waiting, engine.pool,
        first.block_table[0], blocks[-1],
    )  # fmt: skip


def set_to(value: object, *path: str) -> Callable[[Scene], None]:
    return lambda scene: setattr(attrgetter(".".join(path[:-1]))(scene), path[-1], value)


def by(number: int, owner: str, name: str) -> Callable[[Scene], None]:
    """Change a count by this number."""

    def change(scene: Scene) -> None:
        found = attrgetter(owner)(scene)
        setattr(found, name, getattr(found, name) + number)

    return change


BROKEN: dict[str, list[Callable[[Scene], object]]] = {
    "no block is on the free queue twice": [set_to(lambda: [29, 29], "pool", "free_queue", "ids")],
    "the free queue's count equals its length": [by(1, "pool.free_queue", "num_free_blocks")],
    "in use + free = total": [by(1, "unused", "ref_cnt")],
    "ref_cnt = entries in block tables": [by(1, "shared", "ref_cnt"), by(-1, "shared", "ref_cnt")],
    "a block is free exactly if its ref_cnt is 0": [by(1, "unused", "ref_cnt")],
    "the cache index and the blocks agree": [
        lambda scene: scene.pool._cached.clear(),
        lambda scene: scene.pool._cached.update({b"x": {29: None}}),
    ],
    "a block's hash matches its tokens": [lambda scene: scene.second.token_ids.__setitem__(0, 7)],
    "every running sequence has its own slot": [
        by(-1, "second", "slot"),
        set_to(None, "second", "slot"),
    ],
    "every slot is either taken, kept or free": [
        lambda scene: scene.scheduler.slots._free.pop(),
        lambda scene: scene.samples.request.kept_slots.clear(),
    ],
    "a running request keeps a slot for each future fork": [
        lambda scene: scene.samples.request.kept_slots.clear(),
        lambda scene: scene.first.request.kept_slots.append(4),
    ],
    "every unfinished sequence either waits or runs": [
        lambda scene: scene.scheduler.waiting.pop(),
        lambda scene: scene.scheduler.running.pop(),
        lambda scene: scene.scheduler.running.append(scene.first),
    ],
    "a waiting sequence holds no block": [
        lambda scene: scene.waiting.block_table.append(scene.unused),
        set_to(RequestStatus.RUNNING, "waiting", "status"),
    ],
    "num_computed_tokens <= num_tokens": [by(1, "first", "num_computed_tokens")],
    "num_tokens equals the number of tokens": [by(1, "first", "num_tokens")],
    "num_tokens <= max_model_len": [set_to(19, "scheduler", "max_model_len")],
    "a block table has the length that its tokens need": [
        lambda scene: scene.first.block_table.append(scene.unused),
        lambda scene: (scene.plan.scheduled.clear(), scene.first.block_table.pop()),
    ],
    "no block is in a block table twice": [
        lambda scene: scene.first.block_table.__setitem__(1, scene.shared)
    ],
    "no write to a shared block": [
        lambda scene: setattr(scene.second.block_table[-1], "ref_cnt", 2)
    ],
    "scheduled tokens <= budget": [
        set_to(12, "plan", "budget"),
        by(-1, "plan", "total_num_scheduled_tokens"),
    ],
    "no sequence is admitted above max_num_seqs": [set_to(3, "scheduler", "slots", "limit")],
    "a scheduled sequence advances by its tokens": [
        by(1, "first", "num_computed_tokens"),
        lambda scene: setattr(scene.plan.scheduled[0], "num_tokens", 0),
    ],
    "the slots written in a step are distinct": [
        lambda scene: scene.plan.scheduled.append(scene.plan.scheduled[0])
    ],
    "no sequence is admitted in a step that preempts": [
        lambda scene: scene.plan.preempted.append(scene.waiting)
    ],
    "a step with work schedules something": [lambda scene: scene.plan.scheduled.clear()],
}


@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, changes in BROKEN.items() for change in changes]
)
def test_an_invariant_that_is_broken_is_reported_by_its_name(name, change, scene):
    change(scene)
    assert name in scene.violated()


@pytest.mark.parametrize(
    "change",
    [
        lambda scene: scene.plan.preempted.append(scene.first),
        set_to(("batch_delay", 2, 1), "waiting", "deferred"),
    ],
    ids=["a preemption", "a batch delay"],
)
def test_a_step_may_schedule_nothing_when_that_is_progress_or_intended(change, scene):
    scene.plan.scheduled.clear()
    scene.plan.total_num_scheduled_tokens = 0
    assert scene.violated() == {"a step with work schedules something"}
    change(scene)
    assert scene.violated() == set()


def test_running_sequences_may_stay_when_the_limit_is_lowered(scene):
    scene.scheduler.slots.limit = 2
    for item in scene.plan.scheduled:
        item.starts_fresh = False
    assert scene.violated() == set()


def test_without_a_plan_only_rules_that_always_hold_are_checked(scene):
    scene.plan.scheduled.append(scene.plan.scheduled[0])
    assert check_invariants(scene.scheduler) == []
