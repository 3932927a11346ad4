"""Two runs of the same requests: the original, and one with a reader's options or code."""

import sys
from typing import Any

import pytest

from minivllm.core.request_queue import FCFSRequestQueue
from minivllm.lab.playground.methods import core_methods, find_method
from minivllm.lab.playground.play import play

VICTIM = ("minivllm.core.request_queue", "FCFSRequestQueue.choose_victim")
WAITING = ("minivllm.core.scheduler", "Scheduler._schedule_waiting")
OLDEST = "def choose_victim(self, running):\n    return running[0]\n"
needs_monitoring = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="Python 3.11 has no sys.monitoring"
)


def edit(method: tuple[str, str], text: str) -> dict[str, str]:
    return {"module": method[0], "name": method[1], "text": text}


def figures(side: dict[str, Any]) -> dict[str, Any]:
    assert "error" not in side, side["error"]
    return side["figures"]


def test_without_a_change_both_sides_are_equal_to_the_last_event(pressure, tmp_path):
    sides = play({"run": pressure}, tmp_path)
    assert figures(sides["original"]) == figures(sides["yours"])
    original, yours = (sides[name]["recording"].splitlines() for name in ("original", "yours"))
    assert original[1:] == yours[1:]
    assert figures(sides["yours"])["finished_requests"] == len(pressure["requests"])


def test_the_engines_own_code_in_the_editor_changes_nothing(pressure, tmp_path):
    for method in (VICTIM, WAITING, ("minivllm.core.block_pool", "BlockPool.num_free_blocks")):
        same = edit(method, find_method(*method).source)
        sides = play({"run": pressure, "edit": same}, tmp_path)
        assert figures(sides["original"]) == figures(sides["yours"])


def test_another_victim_is_preempted_only_on_the_readers_side(pressure, tmp_path):
    sides = play({"run": pressure, "edit": edit(VICTIM, OLDEST)}, tmp_path)
    first = {
        name: next(line for line in side["recording"].splitlines() if "request.preempted" in line)
        for name, side in sides.items()
    }
    assert '"seq_id":"dan.0"' in first["original"]
    assert '"seq_id":"ada.0"' in first["yours"]
    assert figures(sides["original"])["preemptions"] == 2
    assert "minivllm.core.request_queue" in sys.modules
    assert sys.modules["minivllm.core.request_queue"].FCFSRequestQueue is FCFSRequestQueue


def test_options_change_one_side_or_both(pressure, tmp_path):
    question = {"run": pressure, "options": {"num_gpu_blocks_override": 16}}
    one = play(question, tmp_path)
    both = play({**question, "options_for_both": True}, tmp_path)
    assert figures(one["original"])["preemptions"] < figures(one["yours"])["preemptions"]
    assert figures(both["original"]) == figures(both["yours"]) == figures(one["yours"])


def test_the_page_claims_what_its_three_experiments_give(traces, tmp_path):
    def run(trace: str, **question: Any) -> list[dict[str, Any]]:
        sides = play({"run": traces[trace]["run"], **question}, tmp_path)
        return [figures(sides[name]) for name in ("original", "yours")]

    newest, oldest = run(
        "memory-pressure",
        options={"num_gpu_blocks_override": 16},
        options_for_both=True,
        edit=edit(VICTIM, OLDEST),
    )
    assert (newest["preemptions"], oldest["preemptions"]) == (3, 4)
    assert [round(side["itl_p99_s"] * 1000) for side in (newest, oldest)] == [52, 82]
    large, small = run("memory-pressure", options={"block_size": 4, "num_gpu_blocks_override": 80})
    assert [round(side["kv_waste"], 3) for side in (large, small)] == [0.094, 0.024]
    assert (large["prefix_hit_rate"], small["prefix_hit_rate"]) == (0, 0.375)
    now, before = run(
        "long-and-short", options={"batching": "static", "kv_cache_allocator": "contiguous"}
    )
    assert [round(side["kv_waste"], 3) for side in (now, before)] == [0.085, 0.892]
    assert [round(side["ttft_mean_s"], 2) for side in (now, before)] == [0.28, 1.29]


def test_an_exception_is_reported_with_the_line_of_the_editor(pressure, tmp_path):
    text = "def choose_victim(self, running):\n    found = 1\n    return runing[0]\n"
    yours = play({"run": pressure, "edit": edit(VICTIM, text)}, tmp_path)["yours"]
    assert yours["line"] == 3
    assert "NameError" in yours["error"] and "runing" in yours["error"]
    assert yours["recording"].count("step.begin") == 66, "the run up to there can be played"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def choose_victim(self, running):\n    return (\n", 2),
        ("def another_name(self, running):\n    return running[0]\n", None),
        ("x = 1\n", None),
        ("", None),
    ],
    ids=["syntax", "name", "no function", "empty"],
)
def test_text_that_is_not_the_method_is_refused_before_anything_runs(
    text, line, pressure, tmp_path
):
    yours = play({"run": pressure, "edit": edit(VICTIM, text)}, tmp_path)["yours"]
    assert yours["error"] and yours["recording"] == ""
    assert yours["line"] == line


def test_code_that_breaks_a_rule_of_the_engine_is_caught(pressure, tmp_path):
    lost = edit(
        ("minivllm.core.block_pool", "BlockPool._put_back"),
        "def _put_back(self, block):\n    pass\n",
    )
    stalled = edit(WAITING, "def _schedule_waiting(self, plan, budget, now):\n    return budget\n")
    for change in (lost, stalled):
        yours = play({"run": pressure, "edit": change}, tmp_path)["yours"]
        assert "rule of the engine" in yours["error"]


@needs_monitoring
def test_an_endless_loop_is_stopped_in_its_line(pressure, tmp_path, monkeypatch):
    monkeypatch.setattr("minivllm.lab.playground.play.SECONDS", 0.5)
    text = "def choose_victim(self, running):\n    while True:\n        found = 1\n"
    yours = play({"run": pressure, "edit": edit(VICTIM, text)}, tmp_path)["yours"]
    assert yours["line"] in (2, 3)
    assert "endless loop" in yours["error"]


@pytest.mark.parametrize(
    "options",
    [
        {"block_size": 0},
        {"block_size": "many"},
        {"num_gpu_blocks_override": 2},
        {"num_gpu_blocks_override": 10**9},
        {"scheduling_policy": "random"},
        {"enable_chunked_prefill": False},
        {"dtype": "float32"},
    ],
    ids=str,
)
def test_options_that_cannot_run_are_refused_in_a_sentence(options, pressure, tmp_path):
    sides = play({"run": pressure, "options": options}, tmp_path)
    figures(sides["original"])
    assert sides["yours"]["error"].endswith(".")


def test_own_arrivals_are_served_with_their_priorities_and_prefixes(pressure, tmp_path):
    arrivals = (
        "arrival,prompt_tokens,output_tokens,prefix_group,prefix_tokens,priority\n"
        "0,100,20,,,1\n0,100,20,,,1\n0.01,100,20,manual,64,0\n0.5,90,20,manual,64,0\n"
    )
    question = {"run": pressure, "arrivals": arrivals}
    plain = play(question, tmp_path)
    assert figures(plain["original"])["finished_requests"] == 4
    assert figures(plain["original"])["prefix_hit_rate"] > 0
    urgent = play({**question, "options": {"scheduling_policy": "priority"}}, tmp_path)
    assert figures(urgent["yours"])["finished_requests"] == 4


@pytest.mark.parametrize("arrivals", ["arrival\n", "arrival,prompt_tokens,output_tokens\n0,5,x\n"])
def test_arrivals_that_cannot_be_parsed_are_refused_in_a_sentence(arrivals, pressure, tmp_path):
    sides = play({"run": pressure, "arrivals": arrivals}, tmp_path)
    assert "arrivals.csv" in sides["yours"]["error"]


def test_every_method_of_the_core_that_is_offered_can_be_put_back(pressure, tmp_path):
    methods = core_methods()
    assert len({(one.module, one.name) for one in methods}) == len(methods) > 50
    assert all(one.source.startswith(("def ", "@")) for one in methods)
