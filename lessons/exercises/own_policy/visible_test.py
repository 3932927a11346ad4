"""What any policy must do with its sequences, for `pytest visible_test.py`."""

from policy import OwnPolicy

from minivllm.core.request import Sequence
from minivllm.lessons.checker.cases.manager_operations import sequence_of


def sequences(*lengths: int) -> list[Sequence]:
    return [sequence_of(number, [1] * length) for number, length in enumerate(lengths)]


def test_all_who_join_leave_once_in_the_order_that_the_queue_shows():
    queue, waiting = OwnPolicy(), sequences(8, 200, 14, 30)
    for sequence in waiting:
        queue.add(sequence)
    shown = list(queue)
    assert sorted(queued.seq_id for queued in shown) == [queued.seq_id for queued in waiting]
    assert [queue.pop() for _ in waiting] == shown
    assert len(queue) == 0


def test_the_position_of_a_newcomer_is_the_one_in_the_queue():
    queue = OwnPolicy()
    for sequence in sequences(8, 200, 14, 30):
        position = queue.add(sequence)
        assert list(queue)[position] is sequence


def test_a_victim_is_one_of_those_who_run_and_waits_again():
    queue, running = OwnPolicy(), sequences(8, 200, 14)
    victim = queue.choose_victim(running)
    assert victim in running
    queue.add_preempted(victim)
    assert list(queue) == [victim]


def test_two_queues_have_nothing_in_common():
    mine, other = OwnPolicy(), OwnPolicy()
    mine.add(sequences(8)[0])
    assert len(other) == 0
