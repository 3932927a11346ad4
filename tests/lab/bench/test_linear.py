"""`bench linear`: every way that can run multiplies by all matrices of the model, in turns."""

import argparse
import json

import pytest
import torch

from minivllm.clock import MonotonicClock
from minivllm.errors import BenchError
from minivllm.lab.bench import linear


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    linear.add_arguments(parser)
    return parser.parse_args(words)


def test_the_shapes_are_those_of_the_fused_layers() -> None:
    shapes, num_layers = linear.decoder_shapes("smollm2")
    assert num_layers == 30
    assert sorted(shapes) == [(576, 576), (576, 1536), (960, 576), (3072, 576)]


def test_the_table_has_each_number_of_rows_and_each_way(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--model", "tiny-random", "--rows", "1,3", "--rounds", "2", "--num-threads", "1", "--json")
    assert linear.run(parsed(*words)) == 0
    result = json.loads(capsys.readouterr().out)
    assert [entry["rows"] for entry in result["results"]] == [1, 3]
    for entry in result["results"]:
        assert {"onednn", "torch"} <= set(entry["seconds"]) <= set(linear.WAYS)  # cpu where there is AVX-512
        assert {len(times) for times in entry["seconds"].values()} == {2}
        assert entry["flop"] == 2 * entry["rows"] * result["weight_bytes"] / 4


def test_a_way_that_cannot_run_here_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "--model",
        "tiny-random",
        "--dtype",
        "bfloat16",
        "--rows",
        "1",
        "--rounds",
        "1",
        "--num-threads",
        "1",
        "--json",
    )
    assert linear.run(parsed(*words)) == 0
    result = json.loads(capsys.readouterr().out)
    assert "cpu" not in result["results"][0]["seconds"] and "torch" in result["results"][0]["seconds"]
    assert "the kernels for a CPU are float32" in result["left_out"]["cpu"]


def test_every_layer_has_weights_of_its_own() -> None:
    bench = linear.LinearBench([(16, 8), (32, 16)], 3, torch.float32, MonotonicClock())
    assert len({id(matrix) for matrix in bench.ways["torch"]}) == 6


def test_a_model_that_does_not_fit_three_times_is_refused() -> None:
    with pytest.raises(BenchError, match="take a model of at most 4 GiB"):
        linear.LinearBench([(1 << 16, 1 << 16)], 40, torch.float32, MonotonicClock())


def test_more_rows_than_a_step_has_are_refused_before_they_take_the_memory() -> None:
    with pytest.raises(BenchError, match="at most 65,536; got 10,000,000,000,000"):
        linear.run(parsed("--model", "tiny-random", "--rows", "10000000000000"))


@pytest.mark.parametrize("rows", ["0", "1,x", ""])
def test_rows_are_whole_numbers(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--rows", rows)
    assert "must be a whole number, at least 1" in capsys.readouterr().err
