"""The arithmetic of `bench kernels`, and a whole run of it with interpreted kernels."""

import json

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

from minivllm.cli import main
from minivllm.errors import BenchError
from minivllm.kernels.mode import INTERPRETED
from minivllm.lab.bench.kernels import peers
from minivllm.lab.bench.kernels.cases import INTERPRETED_CASES, TINY, KernelCase, make_batch
from minivllm.lab.bench.kernels.kernels import measure_rows
from minivllm.lab.bench.kernels.runs import check_result, make_runs

DEVICE = torch.device("cpu" if INTERPRETED else "cuda")


def test_the_bytes_that_a_case_moves_are_those_that_its_kernel_must_read_and_write():
    shape = {"heads": 6, "kv_heads": 2, "head_size": 8, "block_size": 16}
    # Each key and value once, a query and an output per token, two bytes per number.
    decode = KernelCase("decode", batch=2, context=10, **shape)
    assert decode.bytes_moved == 2 * (2 * 10 * 2 * 2 * 8 + 2 * 2 * 6 * 8)
    mixed = KernelCase("mixed", batch=3, context=10, chunk=4, **shape)
    assert mixed.query_lens == [1, 1, 4]
    assert mixed.bytes_moved == 2 * (3 * 10 * 2 * 2 * 8 + 2 * 6 * 6 * 8)
    # Written or copied bytes count twice: one read, one write.
    assert KernelCase("kv_write", 3, 0, **shape).bytes_moved == 2 * (3 * 2 * 2 * 8) * 2
    assert KernelCase("block_copy", 3, 0, **shape).bytes_moved == 2 * (3 * 16 * 2 * 2 * 8) * 2


@pytest.mark.parametrize("case", INTERPRETED_CASES, ids=lambda case: case.kernel)
def test_a_wrong_result_is_not_timed(case):
    batch = make_batch(case, DEVICE)
    for name, make in make_runs(case, batch).items():
        run = make()
        with pytest.raises(BenchError, match="differs from the reference"):
            check_result(case, batch, name, lambda run=run: run() * 1.1)


def test_the_paged_peer_of_torch_computes_what_the_reference_does(monkeypatch):
    # Uncompiled, which takes no time: this tests only the paging around it.
    monkeypatch.setattr(peers, "_compiled_flex_attention", lambda: flex_attention)
    case = KernelCase("decode", 2, 300, **TINY)
    batch = make_batch(case, torch.device("cpu"))
    check_result(case, batch, "FlexAttention (paged)", peers._flex_attention_paged(case, batch))


def test_only_requested_rows_are_measured_and_each_has_its_own_key():
    asked = []

    def wants(key: str) -> bool:
        asked.append(key)
        return key.startswith(("device/", "block_copy/"))

    rows = list(measure_rows(num_runs=1, interpret=True, wants=wants))
    keys = ["device/copy", "device/read", "block_copy/block_copy/2x0"]
    assert [row["key"] for row in rows] == keys
    assert len(asked) == len(set(asked)) > 8
    assert all(len(row["runs"]) == 1 for row in rows)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the CUDA device would be measured")
def test_an_interpreted_run_has_a_row_for_every_kernel_version_and_is_marked(capsys):
    assert main(["bench", "kernels", "--interpret", "--runs", "5", "--json"]) == 0
    captured = capsys.readouterr()
    assert "INTERPRETED" in captured.err
    result = json.loads(captured.out)
    assert result["interpreted"] is True
    names = {row["name"] for row in result["results"]}
    versions = {"naive", "grouped", "split", "static", "unified", "prefill", "decode + prefill"}
    assert names == versions | {"sdpa (gathered)", "kv_write", "block_copy"}
    for row in result["results"]:
        assert ("seconds_in_a_row" in row) == (row["kernel"] == "decode" and row["ours"])
        assert len(row["runs"]) == 5 and row["seconds"] == sorted(row["runs"])[2]
