"""A made-up GPU report: the files that stages would write on a machine with a GPU, with round numbers."""

import json
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "versions": {
        "python": "3.12.3", "minivllm": "0.1.0", "torch": "2.11.0", "triton": "3.6.0", "transformers": "5.17.0",
        "numpy": "2.3.5",
    },
    "device": {
        "name": "Made-up GPU", "driver": "1.2.3", "compute_capability": "9.0", "memory_bytes": 80 << 30,
        "multiprocessors": 132,
    },
    "clocks": {"before": None, "after": None},
    "machine": {"cpu": "Made-up CPU", "cores": 16, "system": "Linux x86_64"},
    "commit": None,
}  # fmt: skip
COPY_GB_PER_S = 3000.0
RUNG_SECONDS = {"naive": 1600e-6, "grouped": 400e-6, "split": 380e-6, "static": 375e-6}


def stage(name: str, rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    head = {"stage": name, "status": "done", "error": None, "began": "2026-01-02T03:04:05+00:00", "seconds": 60.0}
    return {**head, "dry_run": False, "environment": ENVIRONMENT, "rows": rows, **changes}


def kernel_row(kernel: str, name: str, batch: int, context: int, seconds: float, **more: Any) -> dict[str, Any]:
    row = {"key": f"{kernel}/{name}/{batch}x{context}", "ours": True, "name": name, "kernel": kernel, "batch": batch}
    row |= {"context": context, "chunk": 0, "seconds": seconds, "gb_per_s": 1.0 / seconds, "runs": [seconds] * 20}
    return row | more


def kernels() -> dict[str, Any]:
    rows = [
        {"key": "device/copy", "name": "copy", "gb_per_s": COPY_GB_PER_S, "runs": [0.001] * 20},
        {"key": "device/read", "name": "read", "gb_per_s": 2900.0, "runs": [0.001] * 20},
    ]
    for batch, context in ((1, 16384), (64, 4096)):
        for name, seconds in RUNG_SECONDS.items():
            rows.append(
                kernel_row("decode", name, batch, context, seconds * batch / 64, seconds_in_a_row=seconds * 1.1)
            )
        rows.append(kernel_row("decode", "sdpa (gathered)", batch, context, 500e-6, ours=False))
    rows.append({"key": "decode/flex/64x4096", "ours": False, "name": "flex", "kernel": "decode", "batch": 64, "context": 4096, "chunk": 0, "reason": "NoSuchThing: at all"})  # fmt: skip
    rows.append(kernel_row("prefill", "prefill", 1, 4096, 300e-6))
    rows.append(kernel_row("prefill", "sdpa cuDNN (gathered)", 1, 4096, 151e-6, ours=False))
    rows.append(kernel_row("mixed", "decode + prefill", 64, 4096, 700e-6, chunk=512))
    rows.append(kernel_row("kv_write", "kv_write", 2048, 0, 12e-6))
    rows.append(kernel_row("block_copy", "block_copy", 512, 0, 9e-6))
    return stage("kernels", rows)


def engine() -> dict[str, Any]:
    speeds = {
        "minivllm, CUDA graphs": [9000.0, 10000.0, 20000.0],
        "minivllm, enforce_eager": [5000.0],
        "transformers, continuous batching": [2500.0],
        "transformers, static batches of 32": [1000.0],
    }
    rows = [
        {
            "key": f"{name}/round {number}", "engine": name, "round": number, "runs": [1.0], "requests": 256,
            "output_tokens": 1, "tokens_per_s": speed, "extrapolated": False, "attention": "triton:static",
        }
        for name, values in speeds.items()
        for number, speed in enumerate(values, 1)
    ]  # fmt: skip
    name = "transformers, one at a time"
    return stage("engine", [*rows, {"key": f"{name}/round 1", "engine": name, "reason": "RuntimeError: it broke"}])


def profile() -> dict[str, Any]:
    timeline = [
        {"on": "host", "name": "schedule", "start": 0.0, "duration": 100.0},
        {"on": "host", "name": "launch", "start": 100.0, "duration": 50.0},
        {"on": "host", "name": "wait", "start": 150.0, "duration": 850.0},
        {"on": "device", "name": "kernel", "start": 160.0, "duration": 800.0},
    ]
    rows = [
        {
            "key": f"{'eager' if eager else 'graphs'}/{batch}", "batch": batch, "enforce_eager": eager, "prompt_tokens": 100 * batch,
            "runs": [0.002] * 40, "profiled_runs": [0.004] * 5, "busy": [0.001] * 5, "api": [0.0015] * 5,
            "waiting": [0.0005] * 5, "launches": [30] * 5, "kernels": [300] * 5, "outside_kernels": 0.5,
            "outside_kernels_profiled": 0.75, "timeline": timeline,
            "top_kernels": [{"name": "gemm|of<all>", "seconds": 0.0004, "launches": 56.0}],
        }
        for eager in (False, True)
        for batch in (1, 64)
    ]  # fmt: skip
    return stage("profile", rows)


def gpu_tests() -> dict[str, Any]:
    bad = {"name": "tests.b.bad", "line": "assert False"}
    return stage(
        "tests",
        [
            {"key": "a.py", "tests": 9, "passed": 8, "skipped": 1, "failures": [], "runs": [1.0]},
            {"key": "b.py", "tests": 3, "passed": 2, "skipped": 0, "failures": [bad], "runs": [1.0]},
        ],
        status="failed",
    )


def write_report(folder: Path, *stages: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for one in stages:
        (folder / f"{one['stage']}.json").write_text(json.dumps(one))
    return folder
