"""The kernels compiled for GPUs that are not here: no spills, matrix instructions where there are products.

Compiling needs a process of its own, because this one interprets kernels. Triton keeps what it compiled in its cache,
so the second run takes seconds.
"""

import json
import os
import subprocess
import sys

import pytest

TARGETS = {"sm_80", "sm_90", "sm_100"}
WITH_PRODUCTS = {"decode_grouped", "decode_split", "prefill", "attention_mass"}
KERNELS = WITH_PRODUCTS | {
    "reshape_and_cache",
    "copy_blocks",
    "decode_naive",
    "reduce_splits",
    "rms_norm",
    "add_rms_norm",
    "silu_and_mul",
    "rotary_and_cache",
}


def compile_report(*options: str) -> str:
    command = [sys.executable, "-m", "minivllm.kernels.compile_report", *options]
    child = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert child.returncode == 0, child.stderr
    return child.stdout


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    """Two shapes that the engine is used with: a small head of an odd group, and a large head."""
    options = ("--json", "--shape", "smollm2-135m", "--shape", "qwen3-0.6b")
    return json.loads(compile_report(*options))["rows"]


def test_every_kernel_is_compiled_for_every_target(rows: list[dict]) -> None:
    assert {(row["kernel"], row["target"]) for row in rows} == {(k, t) for k in KERNELS for t in TARGETS}
    assert len(rows) == 2 * len(KERNELS) * len(TARGETS)
    assert all(row["registers"] > 0 for row in rows)


def test_no_kernel_spills_registers_for_the_shapes_the_engine_uses(rows: list[dict]) -> None:
    assert [row for row in rows if row["spills"] > 0] == []


def test_products_are_done_by_matrix_instructions_and_long_ones_by_the_newest(rows: list[dict]) -> None:
    for row in rows:
        assert bool(row["matrix_instructions"]) == (row["kernel"] in WITH_PRODUCTS), row
    newest = {row["target"]: row["matrix_instructions"] for row in rows if row["kernel"] == "prefill"}
    assert newest == {"sm_80": ["mma"], "sm_90": ["wgmma"], "sm_100": ["tcgen05"]}


def test_float32_for_the_token_identity_tests_does_not_spill_either() -> None:
    options = ("--json", "--shape", "smollm2-135m", "--dtype", "float32", "--target", "sm_90")
    assert [row for row in json.loads(compile_report(*options))["rows"] if row["spills"] > 0] == []


def test_a_kernel_that_is_short_of_registers_is_seen_to_spill() -> None:
    code = """
import os
os.environ["TRITON_INTERPRET"] = "0"
from dataclasses import replace
import torch
from minivllm.kernels.compile_launch import compile_launch
from minivllm.kernels.compile_launch import record_launches
from minivllm.kernels.compile_report import MODEL_SHAPES, operations
launch = record_launches(operations(MODEL_SHAPES["smollm2-135m"], torch.bfloat16, 16)["decode_grouped"])[0]
print(compile_launch(replace(launch, options=launch.options | {"maxnreg": 32}), "sm_90").spills)
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > 0


def test_the_table_for_people_has_a_line_for_each_row() -> None:
    table = compile_report("--shape", "smollm2-135m", "--target", "sm_90").splitlines()
    assert len(table) == 1 + len(KERNELS)
    assert "wgmma" in next(line for line in table if line.startswith("prefill"))
