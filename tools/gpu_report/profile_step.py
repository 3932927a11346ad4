"""Decode steps of Qwen3-0.6B's shape under torch's profiler.

Each batch decodes 20 steps without a profiler and 5 under it. The row has both times, so that the
profiler's cost is visible. DIR/profile-BATCH.json is the trace of these five, for Perfetto: it
shows what the host does between two launches, under the names of the parts of a step.
"""

import json
import statistics
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.store.model_store import QWEN3_DUMMY
from minivllm.sampling_params import RequestOutputKind, SamplingParams

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
STEPS, PROFILED = 20, 5
PROMPT_LEN = 845
"""Mean of prompt and half an output in nano-vllm's workload, for 256 sequences."""
REAL = {
    "model": QWEN3_DUMMY, "load_format": "dummy", "dtype": "bfloat16", "device": "cuda",
    "max_num_seqs": 256, "max_num_batched_tokens": 16384, "max_model_len": 4096,
}  # fmt: skip
DRY_RUN = {
    "model": "tiny-random", "dtype": "float32", "device": "cpu", "attention_backend": "torch",
    "num_gpu_blocks_override": 64,
}  # fmt: skip


def profiled_steps(folder: Path, *, dry_run: bool) -> Iterator[dict[str, Any]]:
    engine = LLMEngine.from_config(EngineConfig(**(DRY_RUN if dry_run else REAL)))
    for batch in (1, 4) if dry_run else (1, 64, 256):
        yield _profile(engine, batch, 20 if dry_run else PROMPT_LEN, folder)


def _profile(engine: LLMEngine, batch: int, prompt_len: int, folder: Path) -> dict[str, Any]:
    _start(engine, batch, prompt_len)
    clock, runs = MonotonicClock(), []
    for _ in range(STEPS):
        started = clock.now()
        _decode(engine, batch)
        runs.append(clock.now() - started)
    path = folder / f"profile-{batch}.json"
    with ExitStack() as stack:
        for owner, name in (
            (engine.core.scheduler, "schedule"),
            (engine.core.runner, "execute_model"),
            (engine.core.runner, "sample_tokens"),
        ):
            named = record_function(name)(getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, named))
        cuda = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
        with profile(activities=[ProfilerActivity.CPU, *cuda]) as profiler:
            for _ in range(PROFILED):
                with record_function("step"):
                    _decode(engine, batch)
    profiler.export_chrome_trace(str(path))
    for request_id in list(engine.core.scheduler.requests):
        engine.abort_request(request_id)
    found = summary(json.loads(path.read_text())["traceEvents"])
    step = statistics.median(runs)
    outside = 1 - found["busy"] / step
    return {"batch": batch, "step": step, **found, "outside": outside, "runs": runs}


def _start(engine: LLMEngine, batch: int, prompt_len: int) -> None:
    """Add requests with different prompts, and run until all of them have decoded some tokens."""
    params = SamplingParams(
        temperature=0, max_tokens=60, ignore_eos=True, output_kind=RequestOutputKind.FINAL_ONLY
    )
    for number in range(batch):
        prompt = [batch, number] * (prompt_len // 2)
        engine.add_request(str(number), {"prompt_token_ids": prompt}, params)
    engine.step()
    while not _all_decode(engine, batch):
        engine.step()
    for _ in range(PROFILED):  # a warm-up
        _decode(engine, batch)


def _all_decode(engine: LLMEngine, batch: int) -> bool:
    scheduled = engine.core.last_plan.scheduled
    return len(scheduled) == batch and all(item.kind == "decode" for item in scheduled)


def _decode(engine: LLMEngine, batch: int) -> None:
    engine.step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    if not _all_decode(engine, batch):
        raise RuntimeError(f"A measured step was not one of {batch} decodes: is the KV cache full?")


def summary(trace: list[dict[str, Any]]) -> dict[str, Any]:
    """Reduce a Chrome trace (in microseconds) to seconds of one step, as means over its steps.

    busy: at least one kernel or copy runs on the device; kernels and parts: the longest, by name
    """
    spans = [span for span in trace if span.get("ph") == "X"]
    device = [span for span in spans if span.get("cat") in ON_DEVICE]
    busy, covered = 0.0, 0.0
    for begin, end in sorted((span["ts"], span["ts"] + span["dur"]) for span in device):
        busy += max(0.0, end - max(begin, covered))
        covered = max(covered, end)
    kernels, parts = Counter[str](), Counter[str]()
    for span in device:
        kernels[span["name"]] += span["dur"] / 1e6 / PROFILED
    for span in spans:
        if span.get("cat") == "user_annotation":
            parts[span["name"]] += span["dur"] / 1e6 / PROFILED
    return {
        "busy": busy / 1e6 / PROFILED,
        "profiled": parts["step"],
        "num_kernels": len(device) / PROFILED,
        "kernels": dict(kernels.most_common(10)),
        "parts": dict(parts.most_common(10)),
    }
