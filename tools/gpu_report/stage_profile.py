"""Stage `profile`: the parts of a decode step of Qwen3-0.6B's shape, with and without CUDA graphs.

For each of three batch sizes, 40 steps run without a profiler, then 5 steps under torch's profiler.
The row has both times, so that the profiler's cost is visible. `timeline` evaluates the trace.
"""

import json
import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from stage_file import StageFailedError, StageFile
from timeline import reduced_timeline, summarize_steps
from torch.profiler import ProfilerActivity, profile

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.lab.bench.step.trace import PartsInTrace
from minivllm.lab.bench.throughput.nano_vllm import MAX_NUM_BATCHED_TOKENS, free_device_memory
from minivllm.lab.bench.throughput.workloads import NANO_VLLM, WorkloadSpec, make_requests
from minivllm.runtime.store.toys import QWEN3_DUMMY
from minivllm.sampling_params import RequestOutputKind, SamplingParams

WARM_UP_STEPS = 5
PREFILL_STEPS = 32
"""Maximum number of steps to prefill a batch. Meanwhile, the first sequences already decode."""
MEAN_CONTEXT = (381, 1305)
"""Prompt lengths like the contexts in the middle of the workload: a prompt of 100 to 1,024 tokens
plus half an average output.
"""


@dataclass(frozen=True)
class ProfileOptions:
    """What to measure. prompts: lengths of the prompts; steps: number of steps without profiler"""

    engine: dict[str, Any]
    prompts: WorkloadSpec
    batches: tuple[int, ...]
    steps: int
    profiled_steps: int


REAL = ProfileOptions(
    engine={
        "model": QWEN3_DUMMY, "load_format": "dummy", "dtype": "bfloat16", "device": "cuda",
        "max_num_seqs": 256, "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
        "max_model_len": 4096,
    },
    prompts=replace(NANO_VLLM, prompt_len=MEAN_CONTEXT), batches=(1, 64, 256), steps=40,
    profiled_steps=5,
)  # fmt: skip
DRY_RUN = ProfileOptions(
    engine={
        "model": "tiny-random", "load_format": "dummy", "dtype": "float32", "device": "cpu",
        "attention_backend": "torch", "linear_backend": "torch", "num_gpu_blocks_override": 64,
    },
    prompts=WorkloadSpec("profile, dry run", num_requests=4, prompt_len=(4, 20), output_len=(2, 8)),
    batches=(1, 4), steps=3, profiled_steps=2,
)  # fmt: skip


def run(report: StageFile, *, dry_run: bool) -> None:
    """Add a row for each batch size, first with CUDA graphs and then without them."""
    options = DRY_RUN if dry_run else REAL
    for enforce_eager in (False, True):
        engine = None
        for batch in options.batches:
            key = f"{'eager' if enforce_eager else 'graphs'}/{batch}"
            if not report.wants(key):
                continue
            if engine is None:
                engine = LLMEngine.from_config(
                    EngineConfig(**options.engine, enforce_eager=enforce_eager)
                )
            numbers = _measure_batch(engine, options, batch)
            report.add({"key": key, "batch": batch, "enforce_eager": enforce_eager, **numbers})
        engine = None
        free_device_memory()


def _measure_batch(engine: LLMEngine, options: ProfileOptions, batch: int) -> dict[str, Any]:
    prompt_lens = _add_requests(engine, options, batch)
    _run_prefills(engine, batch)
    for _ in range(WARM_UP_STEPS):
        engine.step()
    clock, runs = MonotonicClock(), []
    for _ in range(options.steps):
        _wait_for_device()
        started = clock.now()
        _decode(engine, batch)
        _wait_for_device()
        runs.append(clock.now() - started)
    # Profile one step first and discard it: the profiler starts slowly, so this step is slow.
    _profile(engine, batch, 1)
    trace_events = _profile(engine, batch, options.profiled_steps)
    for number in range(batch):
        engine.abort_request(str(number))
    summary = summarize_steps(trace_events)
    busy = statistics.median(summary["busy"])
    return {
        "prompt_tokens": sum(prompt_lens),
        "attention_backend": engine.core.runner.attention_backend,
        "runs": runs,
        **summary,
        # Share of the step in which the device is idle: for profiled steps, then for plain steps.
        "outside_kernels_profiled": 1 - busy / statistics.median(summary["profiled_runs"]),
        "outside_kernels": 1 - busy / statistics.median(runs),
        "timeline": reduced_timeline(trace_events),
    }


def _add_requests(engine: LLMEngine, options: ProfileOptions, batch: int) -> list[int]:
    """Add requests with the workload's prompt lengths and enough output tokens for all steps."""
    max_tokens = PREFILL_STEPS + WARM_UP_STEPS + options.steps + options.profiled_steps + 2
    # Like `LLM.generate`, return no output before the end.
    params = SamplingParams(
        temperature=0,
        max_tokens=max_tokens,
        ignore_eos=True,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    # Use the batch as round number, so that no prompt is in the prefix cache.
    requests = make_requests(options.prompts, 0, batch, engine.tokenizer.vocab_size)[:batch]
    for number, request in enumerate(requests):
        engine.add_request(str(number), {"prompt_token_ids": request.prompt_token_ids}, params)
    return [len(request.prompt_token_ids) for request in requests]


def _run_prefills(engine: LLMEngine, batch: int) -> None:
    for _ in range(PREFILL_STEPS):
        engine.step()
        if _is_decode(engine, batch):
            return
    raise StageFailedError(
        f"{batch} prompts were not prefilled after {PREFILL_STEPS} steps: use shorter ones."
    )


def _is_decode(engine: LLMEngine, batch: int) -> bool:
    scheduled = engine.core.last_plan.scheduled
    return len(scheduled) == batch and all(item.kind == "decode" for item in scheduled)


def _decode(engine: LLMEngine, batch: int) -> None:
    engine.step()
    if not _is_decode(engine, batch):
        raise StageFailedError(
            f"A measured step was not one of {batch} decodes: the KV cache may be too small for"
            " them."
        )


def _profile(engine: LLMEngine, batch: int, num_steps: int) -> list[dict[str, Any]]:
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    runner = engine.core.runner
    watched = [
        (engine, "step", "step"),
        (engine.core.scheduler, "schedule", "schedule"),
        (runner, "execute_model", "model"),
        (runner, "_prepare", "prepare"),
        (runner, "sample_tokens", "sample"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        with PartsInTrace().methods(watched), profile(activities=activities) as profiler:
            for _ in range(num_steps):
                _decode(engine, batch)
                _wait_for_device()
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text())["traceEvents"]


def _wait_for_device() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
