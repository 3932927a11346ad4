"""The README's examples as tests, for `pytest visible_test.py`."""

from verify import roll_back, verify

from minivllm.clock import VirtualClock
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request, Sequence
from minivllm.core.scheduler_output import ScheduledDrafts, SchedulerOutput
from minivllm.events.bus import EventBus
from minivllm.outputs import SampledToken
from minivllm.sampling_params import SamplingParams

MAT, AND, SLEPT, PURRED, STOP = range(5)


def sequence_of(num_tokens: int) -> Sequence:
    return Request("ada", list(range(num_tokens)), SamplingParams()).sequences[0]


def drafted(sequence: Sequence, drafts: list[int]) -> ScheduledDrafts:
    return ScheduledDrafts(
        sequence,
        sequence.num_tokens - 1,
        1 + len(drafts),
        sampling=[sequence],
        draft_token_ids=drafts,
    )


def final(drafts: list[int], drawn: list[int]) -> list[int]:
    item = drafted(sequence_of(6), drafts)
    plan = SchedulerOutput(1, 16, [item], num_draft_tokens=len(drafts))
    tokens = [SampledToken(token_id) for token_id in drawn]
    others, verified = verify(plan, list(zip(plan.sampling_sequences(), tokens, strict=True)))
    assert others == [] and [one.item for one in verified] == [item]
    return [token.token_id for _, token in verified[0].rows]


def test_two_drafts_are_accepted_and_the_model_adds_a_token_of_its_own():
    assert final([MAT, AND, SLEPT], [MAT, AND, PURRED, STOP]) == [MAT, AND, PURRED]


def test_if_every_draft_is_right_there_is_one_token_more_than_drafts():
    assert final([MAT, AND], [MAT, AND, PURRED]) == [MAT, AND, PURRED]


def test_rejected_drafts_are_not_computed_and_their_block_is_free_again():
    bus = EventBus(VirtualClock())
    manager = KVCacheManager(BlockPool(6, bus), 4, enable_prefix_caching=False, bus=bus)
    ada = sequence_of(6)
    item = drafted(ada, [MAT, AND, SLEPT, STOP])
    manager.allocate_slots(ada, 10)
    ada.num_computed_tokens = 10
    assert len(ada.block_table) == 3
    roll_back(item, 2, manager)
    assert item.num_accepted == 2 and ada.num_computed_tokens == 8
    assert [block.block_id for block in ada.block_table] == [0, 1]
