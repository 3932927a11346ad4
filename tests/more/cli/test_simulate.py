"""`minivllm simulate`: answers, recording and refusals."""

import json

import pytest

from minivllm import cli
from minivllm.events.recording.recording import Recording

SMALL = ("--requests", "60", "--random-output-len", "16")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict, str]:
    status = cli.main(["simulate", "--json", *arguments])
    said = capsys.readouterr()
    assert status == 0, said.err
    return json.loads(said.out), said.err


def test_one_configuration_is_answered_with_its_fit_and_two_small_pictures(capsys):
    result, shown = answer(capsys, *SMALL, "--goodput", "ttft:5000", "tpot:200")
    (one,) = result["configurations"]
    assert one["completed"] == 60 and one["total_output_tokens"] == 60 * 16
    assert 0 <= one["goodput_share"] <= 1 and one["request_goodput"] <= one["request_throughput"]
    assert result["fit"]["num_points"] >= 12 and result["fit"]["r_squared"] > 0.5
    assert "measured steps, each predicted without itself: R²" in shown
    assert "share of the requests with their first token within" in shown
    assert "KV cache in use over" in shown


def test_every_combination_of_listed_options_has_a_row(capsys):
    lists = "--scheduling-policy fcfs,priority --max-num-batched-tokens 64,256 --rate 2"
    result, shown = answer(capsys, *SMALL, *lists.split())
    rows = [
        (one["scheduling_policy"], one["max_num_batched_tokens"])
        for one in result["configurations"]
    ]
    assert rows == [("fcfs", 64), ("fcfs", 256), ("priority", 64), ("priority", 256)]
    assert "policy" in shown and "budget" in shown and "…" not in shown
    # All rows use the same requests.
    assert len({one["total_input_tokens"] for one in result["configurations"]}) == 1


def test_paging_and_continuous_batching_are_rows_of_one_table_and_each_helps(capsys):
    both = "--batching static,continuous --kv-cache-allocator contiguous,paged --max-model-len 2048"
    crowd = "--requests 200 --rate inf --length-distribution lognormal"
    room = "--num-gpu-blocks-override 576"
    result, _ = answer(capsys, *both.split(), *crowd.split(), *room.split())
    rows = {(one["batching"], one["kv_cache_allocator"]): one for one in result["configurations"]}
    speed = {key: one["output_throughput"] for key, one in rows.items()}
    neither, each = (
        speed["static", "contiguous"],
        (("static", "paged"), ("continuous", "contiguous")),
    )
    assert all(1.2 * neither < speed[one] < speed["continuous", "paged"] / 1.2 for one in each)
    # 576 blocks of 16 tokens hold four reservations of 2,048.
    assert rows["continuous", "contiguous"]["running_mean"] <= 4
    assert len({one["total_output_tokens"] for one in rows.values()}) == 1


def test_the_recording_of_a_simulation_opens_like_any_other(capsys, tmp_path):
    file = tmp_path / "sim.jsonl"
    result, shown = answer(capsys, *SMALL, "--record", str(file))
    assert f"minivllm replay {file}" in shown
    state = Recording(file).view_at_step(10**9)
    assert state.counters.finished_requests == 60 and state.counters.generation_tokens == 60 * 16
    assert result["record"] == str(file)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--router clever", "must be one of random, least-loaded, prefix-aware; got 'clever'"),
        ("--goodput tpot:0.001", "by the fit, the shortest step takes"),
        ("--random-input-len 9000", "A prompt has 9000 tokens, but max_model_len is 8192"),
        ("--num-gpu-blocks-override 4", "KV cache blocks"),
        ("--step-times nowhere.json", "nowhere.json cannot be read"),
        ("--arrival poisson --burstiness 0.5", "A Poisson process has a burstiness of 1"),
        ("--record x.jsonl --replicas 1,2", "--record needs a single configuration"),
        ("--acceptance-rate 0.5", "give --speculative-config and --acceptance-rate together"),
    ],
)
def test_bad_simulations_are_refused_in_one_sentence(
    capsys, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["simulate", *arguments.split()]) != 0
    said = capsys.readouterr()
    assert said.out == "" and "Traceback" not in said.err
    assert message in said.err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


DRAFTS = ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}')


def test_drafts_that_are_right_save_steps_and_wrong_ones_cost_time(capsys):
    rates = ("--acceptance-rate", "0,0.7,1", "--rate", "0.5")
    result, shown = answer(capsys, *SMALL, *DRAFTS, *rates)
    never, often, always = result["configurations"]
    assert never["draft_acceptance"] == 0 and always["draft_acceptance"] == 1
    assert never["spec_decode_acceptance_length"] == 1 < often["spec_decode_acceptance_length"]
    assert never["steps"] > often["steps"] > always["steps"]
    assert never["mean_e2el_ms"] > often["mean_e2el_ms"] > always["mean_e2el_ms"]
    assert "accepted" in shown
    assert (
        answer(capsys, *SMALL, *DRAFTS, *rates)[0]["configurations"][1]["steps"] == often["steps"]
    )
    plain = answer(capsys, *SMALL, "--rate", "0.5")[0]["configurations"][0]
    assert "draft_acceptance" not in plain and plain["steps"] >= never["steps"]
