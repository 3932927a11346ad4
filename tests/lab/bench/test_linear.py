"""`bench linear`: every available backend multiplies by all matrices of the model, in turns."""

import json

from minivllm.cli import main
from minivllm.lab.bench import linear


def test_the_table_has_each_number_of_rows_and_each_way(capsys):
    words = ["--model", "tiny-random", "--rows", "1,3", "--rounds", "2", "--num-threads", "1"]
    assert main(["bench", "linear", *words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [entry["rows"] for entry in result["results"]] == [1, 3]
    for entry in result["results"]:
        # cpu where there is AVX2
        assert {"onednn", "torch"} <= set(entry["seconds"]) <= set(linear.WAYS)
        assert {len(times) for times in entry["seconds"].values()} == {2}
        assert entry["flop"] == 2 * entry["rows"] * result["weight_bytes"] / 4


def test_formats_are_compared_with_float32_and_an_unknown_one_is_refused(capsys):
    words = ["bench", "linear", "--model", "tiny-random", "--rows", "1", "--rounds", "2", "--json"]
    assert main([*words, "--formats", "q4_1,q6_k"]) == 0
    result = json.loads(capsys.readouterr().out)
    (entry,) = result["results"]
    assert {name: len(times) for name, times in entry["seconds"].items()} == {
        "float32": 2,
        "q4_1": 2,
        "q6_k": 2,
    }
    weights, stored = result["num_weights"], result["stored_bytes"]
    assert weights["q6_k"] >= weights["float32"]  # whole blocks of 256
    assert stored["float32"] == 4 * weights["float32"]
    assert stored["q4_1"] == weights["q4_1"] * 20 // 32
    assert main([*words, "--formats", "q3_k"]) != 0
    assert "got 'q3_k'" in capsys.readouterr().err
