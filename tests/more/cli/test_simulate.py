"""`minivllm simulate`: answers, recording and refusals."""

import json

import pytest

from minivllm import cli

SMALL = ("--requests", "60", "--random-output-len", "16")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict, str]:
    status = cli.main(["simulate", "--json", *arguments])
    said = capsys.readouterr()
    assert status == 0, said.err
    return json.loads(said.out), said.err


def test_one_configuration_is_answered_with_its_fit(capsys):
    result, shown = answer(capsys, *SMALL, "--goodput", "ttft:5000", "tpot:200")
    (row,) = result["configurations"]
    assert row["completed"] == 60 and row["total_output_tokens"] == 60 * 16
    assert 0 <= row["goodput_share"] <= 1 and row["request_goodput"] <= row["request_throughput"]
    assert result["fit"]["num_points"] >= 12 and result["fit"]["r_squared"] > 0.5
    assert "measured steps, each predicted without itself: R²" in shown


def test_paging_and_continuous_batching_are_rows_of_one_table_and_each_helps(capsys):
    sides = "--batching static,continuous --kv-cache-allocator contiguous,paged"
    crowd = "--requests 200 --rate inf --length-distribution lognormal"
    room = "--num-gpu-blocks-override 576 --max-model-len 2048"
    result, shown = answer(capsys, *sides.split(), *crowd.split(), *room.split())
    assert "batching" in shown and "memory" in shown
    rows = {(row["batching"], row["kv_cache_allocator"]): row for row in result["configurations"]}
    speed = {key: row["output_throughput"] for key, row in rows.items()}
    neither, both = speed["static", "contiguous"], speed["continuous", "paged"]
    for key in (("static", "paged"), ("continuous", "contiguous")):
        assert 1.2 * neither < speed[key] < both / 1.2
    # 576 blocks of 16 tokens hold four reservations of 2,048.
    assert rows["continuous", "contiguous"]["running_mean"] <= 4
    assert len({row["total_output_tokens"] for row in rows.values()}) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--router clever", "must be one of random, least-loaded, prefix-aware; got 'clever'"),
        ("--goodput tpot:0.001", "by the fit, the shortest step takes"),
        ("--num-gpu-blocks-override 4", "KV cache blocks"),
        ("--step-times nowhere.json", "nowhere.json cannot be read"),
        ("--record x.jsonl --replicas 1,2", "--record needs a single configuration"),
        (
            "--prefill-replicas 1",
            "Give --prefill-replicas and --decode-replicas, and no --replicas",
        ),
        ("--acceptance-rate 0.5", "give --speculative-config and --acceptance-rate together"),
    ],
)
def test_a_bad_simulation_is_one_sentence(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["simulate", *arguments.split()]) != 0
    said = capsys.readouterr()
    assert said.out == "" and "Traceback" not in said.err
    assert message in said.err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
