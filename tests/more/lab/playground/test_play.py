"""Two runs of the same requests: the original, and one with a reader's options or code."""

import sys
from typing import Any

import pytest

from minivllm.core.admission import FCFSRequestQueue
from minivllm.lab.playground.methods import find_method
from minivllm.lab.playground.play import play

VICTIM = ("minivllm.core.admission", "FCFSRequestQueue.choose_victim")
FREE = ("minivllm.core.block_pool", "BlockPool.num_free_blocks")
OLDEST = "def choose_victim(self, running):\n    return running[0]\n"


def edit(method: tuple[str, str], text: str) -> dict[str, str]:
    return {"module": method[0], "name": method[1], "text": text}


def figures(side: dict[str, Any]) -> dict[str, Any]:
    assert "error" not in side, side["error"]
    return side["figures"]


@pytest.mark.parametrize("method", [VICTIM, FREE], ids=str)
def test_without_a_change_both_sides_are_equal_to_the_last_event(method, pressure, tmp_path):
    same = edit(method, find_method(*method).source)
    sides = play({"run": pressure, "edit": same}, tmp_path)
    original, yours = (sides[name]["recording"].splitlines() for name in ("original", "yours"))
    assert original[1:] == yours[1:]
    assert figures(sides["yours"])["finished_requests"] == len(pressure["requests"])


def test_another_victim_is_preempted_only_on_the_readers_side(pressure, tmp_path):
    sides = play({"run": pressure, "edit": edit(VICTIM, OLDEST)}, tmp_path)
    for side, victim in (("original", "dan.0"), ("yours", "ada.0")):
        _, _, after = sides[side]["recording"].partition("request.preempted")
        assert f'"seq_id":"{victim}"' in after.splitlines()[0]
    assert sys.modules["minivllm.core.admission"].FCFSRequestQueue is FCFSRequestQueue


def test_options_change_one_side_or_both(pressure, tmp_path):
    question = {"run": pressure, "options": {"num_gpu_blocks_override": 16}}
    single = play(question, tmp_path)
    both = play({**question, "options_for_both": True}, tmp_path)
    assert figures(single["original"])["preemptions"] < figures(single["yours"])["preemptions"]
    assert figures(both["original"]) == figures(both["yours"]) == figures(single["yours"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def choose_victim(self, running):\n    found = 1\n    return runing[0]\n", 3),
        ("def choose_victim(self, running):\n    return (\n", 2),
        ("def another_name(self, running):\n    return running[0]\n", None),
    ],
    ids=["exception", "syntax", "name"],
)
def test_a_mistake_is_reported_with_its_line_in_the_editor(text, line, pressure, tmp_path):
    yours = play({"run": pressure, "edit": edit(VICTIM, text)}, tmp_path)["yours"]
    assert yours["error"] and yours["line"] == line
    assert ("step.begin" in yours["recording"]) == (line == 3), "the run up to there is playable"


def test_code_that_breaks_a_rule_of_the_engine_is_caught(pressure, tmp_path):
    put_back = ("minivllm.core.block_pool", "BlockPool._put_back")
    lost = edit(put_back, "def _put_back(self, block):\n    pass\n")
    assert "rule of the engine" in play({"run": pressure, "edit": lost}, tmp_path)["yours"]["error"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 has no sys.monitoring")
def test_an_endless_loop_is_stopped_in_its_line(pressure, tmp_path, monkeypatch):
    monkeypatch.setattr("minivllm.lab.playground.play.SECONDS", 0.5)
    text = "def choose_victim(self, running):\n    while True:\n        found = 1\n"
    yours = play({"run": pressure, "edit": edit(VICTIM, text)}, tmp_path)["yours"]
    assert yours["line"] in (2, 3) and "endless loop" in yours["error"]


@pytest.mark.parametrize(
    "question",
    [
        {"options": {"num_gpu_blocks_override": 2}},
        {"options": {"num_gpu_blocks_override": 10**9}},
        {"options": {"dtype": "float32"}},
        {"arrivals": "arrival,prompt_tokens,output_tokens\n0,5,x\n"},
    ],
    ids=str,
)
def test_what_cannot_run_is_refused_in_a_sentence(question, pressure, tmp_path):
    assert play({"run": pressure, **question}, tmp_path)["yours"]["error"].endswith(".")
