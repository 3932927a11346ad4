"""own-policy: the traffic, the score, and what a policy may not do."""

import json

import pytest

from minivllm.core.admission import FCFSRequestQueue, PriorityRequestQueue
from minivllm.lessons.checker import policy
from minivllm.lessons.checker.catalogue import find_exercise

EXERCISE = find_exercise("own-policy")


def test_traffic_follows_from_its_seed_and_no_answer_reaches_its_limit():
    assert policy.draw_traffic(3) == policy.draw_traffic(3) != policy.draw_traffic(4)
    requests = policy.draw_traffic(3)
    assert len(requests) == policy.NUM_REQUESTS
    assert all(0 < request.num_output_tokens < policy.MAX_TOKENS for request in requests)
    assert {request.priority for request in requests} == {0, 1}
    assert sorted(asked.arrives for asked in requests) == [asked.arrives for asked in requests]


def test_every_policy_serves_every_token_of_the_traffic():
    requests = policy.draw_traffic(5)
    for queue in (FCFSRequestQueue(), PriorityRequestQueue()):
        served = policy.play_traffic(requests, queue)
        assert [len(times) for times in served] == [
            request.num_output_tokens for request in requests
        ]
        assert all(times == sorted(times) for times in served)
        assert all(times[0] > one.arrives for times, one in zip(served, requests, strict=True))


def test_figures_are_those_of_the_times():
    requests = [policy.PolicyRequest(float(i), [1], 3, rank) for i, rank in enumerate((0, 1, 0))]
    served = [[1.0, 1.5, 3.5], [6.0], [2.5, 4.0]]
    assert policy.figures_of(requests, served) == (0.5, 1.0, 5.0, 2.0, 1.0)


@pytest.mark.parametrize(
    ("choose", "words"),
    [
        (lambda running: running.pop(), "changes `running`"),
        (lambda running: running.sort(reverse=True) or running[0], "changes `running`"),
        (lambda running: None, "not in `running`"),
        (lambda running: running[0] + 1, "not in `running`"),
    ],
)
def test_a_victim_is_one_of_those_who_run_and_their_list_stays_as_it_is(choose, words):
    queue = FCFSRequestQueue()
    queue.choose_victim = choose
    with pytest.raises(ValueError, match=words):
        policy.guarded(queue).choose_victim([1000, 2000, 3000])


def test_requests_that_do_not_get_their_tokens_fail_the_level_with_one_sentence():
    levels = [level for level in EXERCISE.behaviours() if level.name.startswith("level 1")]
    served = policy.play_traffic(policy.draw_traffic(5)[:40], FCFSRequestQueue())
    line = json.dumps(served + [[]] * (policy.NUM_REQUESTS - 40))
    verdict = levels[0].judge({"seeds": [5, 6, 7]}, [], [line] * 3)
    assert verdict.startswith("request 40 gets 0 of its ")
