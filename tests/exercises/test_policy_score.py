"""own-policy: the traffic, the score, and the replay of a policy's decisions."""

import json

import pytest

from minivllm.core.admission import FCFSRequestQueue, PriorityRequestQueue
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.policy import score
from minivllm.lessons.checker.policy.decisions import MAX_DECISIONS, Recorder, Replay
from minivllm.lessons.checker.policy.play import Served, play_traffic
from minivllm.lessons.checker.policy.score import PolicyFigures
from minivllm.lessons.checker.policy.traffic import MAX_TOKENS, NUM_REQUESTS, draw_traffic

EXERCISE = find_exercise("own-policy")


def test_traffic_follows_from_its_seed_and_no_answer_reaches_its_limit():
    assert draw_traffic(3) == draw_traffic(3) != draw_traffic(4)
    requests = draw_traffic(3)
    assert len(requests) == NUM_REQUESTS
    assert all(0 < one.num_output_tokens < MAX_TOKENS for one in requests)
    assert {one.priority for one in requests} == {0, 1}
    assert sorted(one.arrives for one in requests) == [one.arrives for one in requests]


def test_every_policy_serves_every_token_of_the_traffic():
    requests = draw_traffic(5)
    for queue in (FCFSRequestQueue(), PriorityRequestQueue()):
        served = score.read_served(list(play_traffic(requests, queue)))
        assert [len(one.times) for one in served] == [one.num_output_tokens for one in requests]
        assert all(one.times == sorted(one.times) for one in served)
        assert all(one.times[0] > one.arrived for one in served)


def test_figures_are_those_of_the_times():
    served = [
        Served(0, 4, 0.0, [0], [1.0, 1.5, 3.5]),
        Served(1, 9, 1.0, [2], [6.0]),
        Served(0, 4, 2.0, [1], [2.5, 4.0]),
    ]
    assert score.figures_of(served) == PolicyFigures(0.5, 1.0, 5.0, 2.0, 1.0, 1)


def test_recorded_decisions_give_the_same_traffic_again_and_fit_no_other():
    requests, recorder = draw_traffic(5), Recorder(PriorityRequestQueue())
    served = list(play_traffic(requests, recorder))
    assert list(play_traffic(requests, Replay(recorder.decisions))) == served
    chosen = json.loads(recorder.decisions)
    for others in (chosen[:-1], chosen[1:], [NUM_REQUESTS, *chosen[1:]]):
        with pytest.raises(ValueError, match="cannot be chosen here"):
            list(play_traffic(requests, Replay(json.dumps(others))))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[" * 100_000, "not a list"),
        ("[[1]]", "not a list"),
        ("[]", "request None cannot be chosen here"),
        (json.dumps([0] * (MAX_DECISIONS + 1)), "there are 7201 of them, more than 7200"),
    ],
    ids=["deep", "nested", "none", "too many"],
)
def test_forged_decisions_fail_the_level_with_one_sentence(line, words):
    levels = [one for one in EXERCISE.behaviours() if one.name.startswith("level 1")]
    verdict = levels[0].judge({"seeds": [5, 6, 7]}, [], [line] * 3)
    assert verdict.startswith("its decisions do not fit the traffic") and words in verdict


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
    policy = FCFSRequestQueue()
    policy.choose_victim = choose
    with pytest.raises(ValueError, match=words):
        Recorder(policy).choose_victim([1000, 2000, 3000])
