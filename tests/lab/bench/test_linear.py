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
        # cpu where there is AVX-512
        assert {"onednn", "torch"} <= set(entry["seconds"]) <= set(linear.WAYS)
        assert {len(times) for times in entry["seconds"].values()} == {2}
        assert entry["flop"] == 2 * entry["rows"] * result["weight_bytes"] / 4
