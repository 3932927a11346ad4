"""`minivllm compare`: runs one trace through two configurations with equal KV cache memory.

    minivllm compare --a static+contiguous --b continuous+paged --scenario lengths-8-256

Every number is computed from recordings of both sides. Their KV caches have the same bytes; with
another `kv_cache_dtype` these are more blocks.
On a CPU all times are processor time of the engine's thread: other programs hardly change it.
"""

import argparse
import shlex
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path

from rich.progress import Progress, TaskID

from minivllm import runtime
from minivllm.cli.loading import loading
from minivllm.cli.options import Parser, ReadConfig
from minivllm.cli.terminal import note
from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.configurations import PARTS, Configuration, parse_configuration
from minivllm.errors import ConfigError
from minivllm.events.recording.recording import Recording
from minivllm.lab.common import report
from minivllm.lab.compare.run import Run, check_trace, plot_runs, run_trace
from minivllm.lab.compare.trace import AGENTS, TRACE_NAMES, fitted, make_trace
from minivllm.lab.plot import check_plot
from minivllm.lessons.scenarios.scenario import Scenario
from minivllm.lessons.scenarios.scenarios import BURST, SCENARIOS
from minivllm.tui.answers.verdict import why_faster

_ROWS = (
    ("output tokens per second", "throughput_tokens_per_s", "{:.1f}"),
    ("max requests at once", "max_running", "{}"),
    ("waste, of the memory allocated", "kv_waste", "{:.1%}"),
    ("of all memory: holds tokens", "kv_used", "{:.1%}"),
    ("  reserved, written later", "kv_reserved", "{:.1%}"),
    ("  reserved, never written", "kv_internal", "{:.1%}"),
    ("blocks saved by sharing", "kv_saved_by_sharing", "{:.1%}"),
    ("preemptions", "preemptions", "{:,}"),
    ("steps", "steps", "{:,}"),
    ("tokens computed again", "recomputed_tokens", "{:,}"),
    ("tokens loaded from the host", "loaded_tokens", "{:,}"),
    ("drafts that were right", "draft_acceptance", "{:.0%}"),
    ("time to first token, p50, s", "ttft_p50_s", "{:.3f}"),
    ("time to first token, p99, s", "ttft_p99_s", "{:.3f}"),
    ("time between tokens, p50, s", "itl_p50_s", "{:.4f}"),
    ("time between tokens, p99, s", "itl_p99_s", "{:.4f}"),
)

TIME_OF = {"processor": "processor time", "wall": "time"}


def add_arguments(parser: Parser) -> None:
    parser.add("--a A", f"parts of {', '.join(PARTS)}, joined by + (default: the scenario's)")
    parser.add("--b B", "the other side (default: the scenario's)")
    which = "the requests (default: burst, or agents with the part offload)"
    parser.add("--scenario", which, choices=TRACE_NAMES)
    how = "how the side with the part ngram or draft_model drafts; the part draft_model needs it"
    parser.add("--speculative-config JSON", how, action=ReadConfig, const=SpeculativeConfig)
    size = "KV cache of each side (default: the scenario's; demo changes some for the house model)"
    parser.add("--kv-budget BYTES", size, type=report.positive_int, dest="kv_cache_memory_bytes")
    parser.add("--seed SEED", "seed for prompts and lengths", type=int, default=0)
    parser.add("--record FOLDER", "write a.jsonl and b.jsonl here (default: a temporary folder)")
    parser.add("--plot FILE", "draw both sides into FILE (.svg, .png, .pdf)")
    report.add_model_arguments(parser.add, model="house")
    parser.add("--json", report.JSON_HELP)


def run(args: argparse.Namespace) -> int:
    a, b = SCENARIOS.get(args.scenario, BURST).sides
    args.a, args.b = args.a or a, args.b or b
    sides = _parse_sides(args)
    if args.plot is not None:
        check_plot(Path(args.plot))
    common = {"model": args.model, "dtype": args.dtype, "seed": args.seed}
    with loading(args.model):
        import_module("torch").set_num_threads(args.num_threads)
        model = runtime.load_model(EngineConfig(**common))
    # In a burst, nothing comes back that a second memory could load.
    has_tier = any(side.options.get("kv_transfer_config") for side in sides)
    default = AGENTS if has_tier else "burst"
    trace = make_trace(args.scenario or default, model.tokenizer, args.seed)
    trace = fitted(trace, model.config.max_position_embeddings)
    usual = EngineConfig(**common, **trace.options)
    spec = runtime.KVCacheSpec.of(model.config, usual.block_size, model.dtype)
    budget = args.kv_cache_memory_bytes or usual.num_gpu_blocks_override * spec.bytes_per_block
    options = {**trace.options, "num_gpu_blocks_override": None, "kv_cache_memory_bytes": budget}
    configs = [EngineConfig(**common, **side.options_for(options)) for side in sides]
    # Check both sides before either runs, so that an error costs no time.
    for config in configs:
        check_trace(config, model, trace)
    folder = Path(args.record or tempfile.mkdtemp(prefix="minivllm-compare-"))
    folder.mkdir(parents=True, exist_ok=True)
    logs = folder / "a.jsonl", folder / "b.jsonl"
    runs = []
    for config, log, side, name in zip(configs, logs, "ab", (args.a, args.b), strict=True):
        note(f"{side}: {name}, {len(trace.arrivals)} requests")
        # A thread of its own draws, so that drawing takes none of the time that is measured.
        with report.progress_bar(auto_refresh=True) as progress:
            show = partial(_show, progress, progress.add_task("", total=len(trace.arrivals)))
            runs.append(run_trace(config, model, trace, log, show))
    _print(args, trace, runs)
    return 0


def _show(progress: Progress, task: TaskID, steps: int, ended: int) -> None:
    progress.update(task, completed=ended, description=f"step {steps:,}, {ended} requests ended")


def _parse_sides(args: argparse.Namespace) -> list[Configuration]:
    drafts = args.speculative_config
    sides = [parse_configuration(name, drafts) for name in (args.a, args.b)]
    if drafts and drafts not in [side.options.get("speculative_config") for side in sides]:
        raise ConfigError(
            "--speculative-config needs a side that has its method as a part:"
            f" use, for example, --a plain --b {drafts.method}."
        )
    return sides


def _print(args: argparse.Namespace, trace: Scenario, runs: list[Run]) -> None:
    a, b = (
        {"configuration": name, **run.measured.figures, "recording": str(run.recording)}
        for name, run in zip((args.a, args.b), runs, strict=True)
    )
    blocks = " and ".join(dict.fromkeys(str(side["num_blocks"]) for side in (a, b))) + " blocks"
    if args.plot is not None:
        title = f"{trace.name} on {args.model}, {blocks}"
        plot_runs(title, zip((args.a, args.b), runs, strict=True), Path(args.plot))
    same = [runs[0].outputs[name] == runs[1].outputs[name] for name in runs[0].outputs]
    result = {
        "scenario": trace.name,
        **{name: getattr(args, name) for name in ("model", "dtype", "seed", "plot")},
        "threads": args.num_threads,
        "requests": len(trace.arrivals),
        **{name: a[name] for name in ("output_tokens", "num_blocks", "block_size")},
        "clock": runs[0].clock,
        "a": a,
        "b": b,
        "throughput_ratio": b["throughput_tokens_per_s"] / a["throughput_tokens_per_s"],
        "identical_requests": sum(same) / len(same),
        **report.describe_environment("torch"),
    }
    rows = [
        (name, *("-" if side[key] is None else form.format(side[key]) for side in (a, b)))
        for name, key, form in _ROWS
        if a[key] != b[key]
    ]
    times = result["throughput_ratio"]
    why = why_faster(*(Recording(run.recording).head for run in runs), times, "ab")
    replay = shlex.join(["minivllm", "replay", a["recording"], "--with", b["recording"]])
    more, fast, slow = (times, "b", "a") if times >= 1 else (1 / times, "a", "b")
    tokens = f"{fast} gives {more:.2f} times the tokens of {slow}"
    notes = [
        f"{tokens} in the same {TIME_OF[runs[0].clock]}: {why}.",
        f"{sum(same)} of {len(same)} requests got the same tokens from both.",
        f"Side by side: {replay} (key 6)",
        *([f"Picture: {args.plot}"] if args.plot else []),
    ]
    requests = f"{result['requests']} requests, {result['output_tokens']:,} output tokens"
    memory = f"{blocks} of {a['block_size']} tokens, {args.num_threads} threads"
    title = f"{trace.name}: {requests}, {args.model} in {args.dtype}, {memory}"
    columns = ("", f"a: {args.a}", f"b: {args.b}")
    report.print_report(report.Report(title, columns, rows, notes, result), args.json)
