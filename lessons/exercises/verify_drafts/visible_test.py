"""The README's examples as tests, for `pytest visible_test.py`."""

from verify import roll_back, verify

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledDrafts, SchedulerOutput
from minivllm.lessons.checker.cases.manager_operations import manager_of, sequence_of, table_of
from minivllm.outputs import SampledToken

MAT, AND, SLEPT, PURRED, STOP = range(5)


def drafted(sequence: Sequence, drafts: list[int]) -> ScheduledDrafts:
    start, num_tokens = sequence.num_tokens - 1, 1 + len(drafts)
    return ScheduledDrafts(sequence, start, num_tokens, sampling=[sequence], draft_token_ids=drafts)


def final(drafts: list[int], drawn: list[int]) -> list[int]:
    item = drafted(sequence_of(0, [*range(6)]), drafts)
    plan = SchedulerOutput(1, 16, [item], num_draft_tokens=len(drafts))
    tokens = [SampledToken(token_id) for token_id in drawn]
    others, verified = verify(plan, list(zip(plan.sampling_sequences(), tokens, strict=True)))
    assert others == [] and [result.item for result in verified] == [item]
    return [token.token_id for _, token in verified[0].rows]


def test_two_drafts_are_accepted_and_the_model_adds_a_token_of_its_own():
    assert final([MAT, AND, SLEPT], [MAT, AND, PURRED, STOP]) == [MAT, AND, PURRED]


def test_if_every_draft_is_right_there_is_one_token_more_than_drafts():
    assert final([MAT, AND], [MAT, AND, PURRED]) == [MAT, AND, PURRED]


def test_rejected_drafts_are_not_computed_and_their_block_is_free_again():
    manager, ada = manager_of(6), sequence_of(0, [*range(6)])
    item = drafted(ada, [MAT, AND, SLEPT, STOP])
    manager.allocate_slots(ada, 10)
    ada.num_computed_tokens = 10
    assert len(ada.block_table) == 3
    roll_back(item, 2, manager)
    assert item.num_accepted == 2 and ada.num_computed_tokens == 8
    assert table_of(ada) == [0, 1]
