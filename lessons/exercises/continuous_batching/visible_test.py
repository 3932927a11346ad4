"""The README's examples as tests, for `pytest visible_test.py`."""

from admission import AdmissionPolicy, Hold

from minivllm.core.admission import FCFSRequestQueue
from minivllm.lessons.checker.cases.manager_operations import request_of


def sequence(number, arrival_time=0.0):
    request = request_of(number, [1])
    request.arrival_time = arrival_time
    return request.sequences[0]


def queue(*sequences):
    waiting = FCFSRequestQueue()
    for sequence in sequences:
        waiting.add(sequence)
    return waiting


def test_a_continuous_batch_can_be_joined_at_any_time():
    policy = AdmissionPolicy("continuous", 0.0, 4)
    assert policy.hold(queue(sequence(1)), [sequence(0)], False, 0.0) is None


def test_a_static_batch_admits_nobody_while_it_runs():
    policy = AdmissionPolicy("static", 0.0, 4)
    waiting = queue(sequence(1))
    assert policy.hold(waiting, [sequence(0)], False, 0.0) == Hold("static_batch", 1, 0)
    assert policy.hold(waiting, [], False, 0.0) is None


def test_all_who_wait_when_a_static_batch_begins_may_join_it():
    for batching, second in (("static", None), ("sequential", Hold("static_batch", 1, 0))):
        policy = AdmissionPolicy(batching, 0.0, 4)
        waiting = queue(first := sequence(0), sequence(1))
        assert policy.hold(waiting, [], False, 0.0) is None
        assert waiting.pop() is first
        assert policy.hold(waiting, [first], False, 0.0) == second


def test_a_batch_that_cannot_advance_holds_nobody():
    policy = AdmissionPolicy("static", 0.0, 4)
    assert policy.hold(queue(sequence(1)), [sequence(0)], True, 0.0) is None


def test_a_delay_ends_with_the_time_or_with_enough_sequences():
    policy = AdmissionPolicy("continuous", 2.0, 2)
    waiting = queue(sequence(0, arrival_time=5.0))
    assert policy.hold(waiting, [], False, 6.0) == Hold("batch_delay", 2, 1)
    assert policy.hold(waiting, [], False, 7.5) is None
    waiting = queue(sequence(1, arrival_time=8.0), sequence(2, arrival_time=8.0))
    assert policy.hold(waiting, [], False, 8.0) is None
