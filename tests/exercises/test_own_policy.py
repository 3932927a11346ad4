"""own-policy: four rules, and a score that any order of the waiting requests can earn."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.core.request_queue import FCFSRequestQueue, PriorityRequestQueue
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.check import Result, run_behaviours
from minivllm.lessons.checker.child.sandbox import Submission
from minivllm.lessons.checker.policy import score
from minivllm.lessons.checker.policy.decisions import MAX_DECISIONS, Recorder, Replay
from minivllm.lessons.checker.policy.play import Served, play_traffic
from minivllm.lessons.checker.policy.score import PolicyFigures
from minivllm.lessons.checker.policy.traffic import MAX_TOKENS, NUM_REQUESTS, draw_traffic
from minivllm.lessons.checker.report import report

EXERCISE = find_exercise("own-policy")
STARVES, REPEATS = "is overtaken by more than", "the same requests give the same schedule"


def checked(body: str, folder: Path) -> Result:
    """Check the reference solution with other methods."""
    file = folder / EXERCISE.student_file
    lines = f"class Mine(OwnPolicy):\n{body}\nMine.__name__ = 'OwnPolicy'\nOwnPolicy = Mine\n"
    file.write_text(f"{EXERCISE.source}\n\n{lines}")
    return run_behaviours(EXERCISE, Submission(file), patience=0)


def failed(result: Result) -> list[str]:
    return [one.behaviour.name for one in result.behaviours if not one.passed]


# ---- the judge ----


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


def test_first_come_first_served_overtakes_nobody_and_has_a_score_of_one():
    served = score.read_served(list(play_traffic(draw_traffic(5), FCFSRequestQueue())))
    figures = score.figures_of(served)
    assert figures.most_overtaken == 0
    assert score.score_of([figures], [figures]) == pytest.approx(1.0)


def test_who_is_overtaken_is_counted_from_admissions():
    assert score.num_overtaking([0, 1, 2]) == [0, 0, 0]
    assert score.num_overtaking([3, 0, 2, 1]) == [3, 0, 1, 0]


def test_figures_are_those_of_the_times():
    served = [
        Served(0, 4, 0.0, [0], [1.0, 1.5, 3.5]),
        Served(1, 9, 1.0, [2], [6.0]),
        Served(0, 4, 2.0, [1], [2.5, 4.0]),
    ]
    assert score.figures_of(served) == PolicyFigures(0.5, 1.0, 5.0, 2.0, 1.0, 1)


def test_twice_as_good_in_one_figure_and_half_as_good_in_another_is_no_gain():
    fcfs = PolicyFigures(1.0, 1.0, 1.0, 1.0, 100.0, 0)
    assert score.score_of([fcfs._replace(chat_median=0.5, pause=2.0)], [fcfs]) == pytest.approx(1)
    assert score.score_of([fcfs._replace(tokens_per_second=320.0)], [fcfs]) == pytest.approx(
        3.2 ** (1 / 5)
    )
    assert "pause p90" in score.weakest([fcfs._replace(pause=2.0)], [fcfs])


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
        ('{"0": 1}', "not a list"),
        ("[[1]]", "not a list"),
        ("[null]", "not a list"),
        ("[1, \ud800]", "not a list"),
        ("", "not a list"),
        ("[]", "request None cannot be chosen here"),
        (json.dumps([0] * (MAX_DECISIONS + 1)), "there are 7201 of them, more than 7200"),
    ],
    ids=["deep", "object", "nested", "null", "no text", "empty", "none", "too many"],
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


# ---- submissions ----


def test_our_own_policy_reaches_every_level_and_the_report_has_the_figures_of_all(tmp_path):
    result = checked("    pass\n", tmp_path)
    assert failed(result) == [] and result.passed
    lines = list(report(result))
    rows = {line.split()[0]: line.split() for line in lines if line.split()}
    assert rows["ours"][1:] == rows["yours"][1:] and rows["fcfs"][-1] == "1.00"
    assert "Passed, with level 3 of 3." in lines


def test_a_policy_of_another_kind_passes_without_the_last_level(tmp_path):
    body = """
    @staticmethod
    def key(sequence):
        request = sequence.request
        group = request.arrival_number // 16 + (request.priority == 1)
        return group, sequence.num_prompt_tokens, request.arrival_number, sequence.index

    def choose_victim(self, running):
        return running[-1]
"""
    result = checked(body, tmp_path)
    assert result.passed
    assert all(name.startswith("level 3") for name in failed(result))


def test_first_come_first_served_keeps_the_rules_and_reaches_no_level(tmp_path):
    body = """
    @staticmethod
    def key(sequence):
        return sequence.request.arrival_number, sequence.index

    def choose_victim(self, running):
        return running[-1]
"""
    result = checked(body, tmp_path)
    assert [name[:7] for name in failed(result)] == ["level 1", "level 2", "level 3"]
    assert not result.passed
    assert "the score is 1.00" in result.first_failure.counterexample.failure.text


def test_shortest_first_starves_somebody_whatever_its_score(tmp_path):
    body = """
    @staticmethod
    def key(sequence):
        return sequence.num_prompt_tokens, sequence.request.arrival_number, sequence.index
"""
    result = checked(body, tmp_path)
    assert any(STARVES in name or "overtaken" in name for name in failed(result))
    assert not result.passed


@pytest.mark.parametrize(
    "source",
    [
        "import random\n        return sequence.request.arrival_number + random.random() * 9, 0",
        "OwnPolicy.n = getattr(OwnPolicy, 'n', 0) + 1\n        return OwnPolicy.n % 5, OwnPolicy.n",
    ],
)
def test_chance_and_memory_between_runs_are_found(source, tmp_path):
    body = f"    @staticmethod\n    def key(sequence):\n        {source}\n"
    assert any(name.startswith(REPEATS) for name in failed(checked(body, tmp_path)))


def test_a_submission_that_changes_the_clock_of_its_own_process_gains_nothing(tmp_path):
    body = """
    from minivllm.lessons.checker.policy import play
    play.SECONDS_PER_STEP = play.SECONDS_PER_TOKEN = 0.001

    @staticmethod
    def key(sequence):
        return sequence.request.arrival_number, sequence.index
"""
    result = checked(body, tmp_path)
    assert not result.passed
    assert any(name.startswith("level 1") for name in failed(result))


def test_a_policy_that_knows_who_will_arrive_is_found(tmp_path):
    body = """
    @staticmethod
    def key(sequence):
        import sys
        frame = sys._getframe()
        while frame is not None and "pending" not in frame.f_locals:
            frame = frame.f_back
        request = sequence.request
        coming = len(frame.f_locals["pending"]) if frame is not None else 0
        return request.arrival_number + coming * request.priority, request.arrival_number, 0
"""
    names = failed(checked(body, tmp_path))
    assert any(name.startswith("no decision depends on what comes later") for name in names)


def test_a_policy_that_raises_or_loops_gets_a_verdict(tmp_path):
    result = checked(
        "    def choose_victim(self, running):\n        raise KeyError('who')\n", tmp_path
    )
    assert not result.passed and "KeyError in line" in "\n".join(report(result))


def test_the_demo_runs_with_the_students_policy(home):
    file = home / EXERCISE.student_file
    file.write_text(f"{EXERCISE.source}\nprint('my policy is here')\n")
    demo = [sys.executable, "-m", "minivllm.cli.course.exercise_demo", "own-policy", str(file)]
    told = subprocess.check_output([*demo, "--headless", "--model", "house"], text=True)
    assert "my policy is here" in told and "12 of 12 requests finished" in told


def test_the_stub_is_red_with_an_announcement(home, capsys):
    assert main(["exercise", "start", "own-policy"]) == 0
    assert main(["exercise", "check", "own-policy"]) == 1
    assert "nothing is broken" in capsys.readouterr().out
