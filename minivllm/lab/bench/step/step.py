"""`minivllm bench step`: where the time of a step goes, compared with the machine's limits.

    minivllm bench step --batch-sizes 1,4,16,64 --context 128 --json
    minivllm bench step --batch-sizes 16 --trace step.json  # then open step.json in ui.perfetto.dev

The steps of one engine are measured in three ways:

    plain      how long a step takes
    watched    how the time of a step divides into parts (`stopwatch.py`); watching takes time, too
    recorded   how much time events take

Decode steps start at contexts of `--context` tokens. A prefill step has one prompt that fills the
token budget. No decode step can be faster than reading all weights once, which the same run
measures. `--json` adds `points`: single steps of many kinds (`points.py`).
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from random import Random
from typing import Any, get_args

from minivllm.clock import Clock, MonotonicClock
from minivllm.config import (
    MAX_NUM_SEQS,
    AttentionBackendName,
    CustomOp,
    EngineConfig,
    LinearBackendName,
)
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.lab.bench.step.parts import MODEL_PARTS, OUTSIDE_PARTS, watch_parts
from minivllm.lab.bench.step.points import RandomRequests, measure_points
from minivllm.lab.bench.step.report import MeasuredSteps, describe_times, notes, table
from minivllm.lab.common.environment import describe_environment, set_num_threads
from minivllm.lab.common.report import (
    add_json_argument,
    add_model_arguments,
    positive_int,
    positive_ints,
    print_report,
    progress_bar,
)
from minivllm.lab.common.stopwatch import Stopwatch, waiting_clock

NUM_STEPS = 20
WARM_UP_STEPS = 3
NUM_PREFILLS = 5
PREFILL = "prefill"
USUAL_BATCH_SIZES = (1, 4, 16, 64)


class StepBench:
    def __init__(self, engine: LLMEngine, clock: Clock, seed: int) -> None:
        self.engine = engine
        self.requests = RandomRequests(engine, seed)
        self._device = engine.core.runner._model.device
        self._now = waiting_clock(clock.now, self._device)
        self._stopwatch = Stopwatch(self._now)
        self._order = Random(seed)

    def measure_decodes(self, batch_size: int, context: int, num_steps: int) -> MeasuredSteps:
        """Measure `num_steps` steps in each way; sequences start with `context` tokens."""
        times = MeasuredSteps()
        ways = [self._plain, self._watched, self._recorded] * num_steps
        # Sequences start new blocks at fixed distances, which must not always coincide with the
        # same way of measuring.
        self._order.shuffle(ways)
        for _ in range(batch_size):
            self.requests.add(
                context, num_tokens_needed(self.engine, batch_size, context, num_steps) - context
            )
        self._start_all()
        for way in ways:
            way(times)
        self._end_all()
        return times

    def measure_prefills(self, num_tokens: int) -> MeasuredSteps:
        """Measure steps with only one prompt of `num_tokens` tokens."""
        times = MeasuredSteps()
        for way in [
            lambda _: self.engine.step(),
            *[self._plain, self._watched, self._recorded] * NUM_PREFILLS,
        ]:
            self.requests.add(num_tokens, max_tokens=1)
            way(times)
        return times

    def _start_all(self) -> None:
        for _ in range(WARM_UP_STEPS):
            self.engine.step()
            while any(item.kind == PREFILL for item in self.engine.core.last_plan.scheduled):
                self.engine.step()

    def _end_all(self) -> None:
        for request_id in list(self.engine.core.scheduler.requests):
            self.engine.abort_request(request_id)

    def _time(self, step: Callable[[], Any]) -> float:
        started = self._now()
        step()
        return self._now() - started

    def _plain(self, times: MeasuredSteps) -> None:
        times.plain.append(self._time(self.engine.step))

    def _recorded(self, times: MeasuredSteps) -> None:
        events: list[object] = []
        unsubscribe = self.engine.subscribe(events.append)
        times.recorded.append(self._time(self.engine.step))
        unsubscribe()

    def _watched(self, times: MeasuredSteps) -> None:
        self._stopwatch.clear()
        with watch_parts(self.engine, self._stopwatch):
            self.engine.step()
        times.watched.append(self._stopwatch.seconds)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Measure all steps, and return the report for `--json`."""
    from minivllm.lab.bench.step.trace import write_trace
    from minivllm.lab.common.machine_speed import measure_machine_speed

    set_num_threads(args.num_threads)
    clock = MonotonicClock()
    asked = args.batch_sizes or USUAL_BATCH_SIZES
    config = _engine_config(args, asked)
    engine = LLMEngine.from_config(config, clock=clock)
    batch_sizes = fitting_batch_sizes(args, engine)
    bench = StepBench(engine, clock, args.seed)
    model = engine.core.runner._model
    if args.trace is not None:
        write_trace(engine, bench.requests, max(batch_sizes), args.context, args.trace)
    with progress_bar() as progress:
        task = progress.add_task("speed of the machine", total=len(batch_sizes) + 3)
        speed = measure_machine_speed(model.dtype, model.device, clock)
        results = []
        for batch_size in batch_sizes:
            progress.update(
                task, advance=1, description=f"decode steps of {batch_size}", refresh=True
            )
            times = bench.measure_decodes(batch_size, args.context, args.steps)
            results.append({"kind": "decode", "batch_size": batch_size, **describe_times(times)})
        progress.update(task, advance=1, description="prefill steps", refresh=True)
        num_tokens = min(config.max_num_batched_tokens, engine.max_model_len - 1)
        prefills = bench.measure_prefills(num_tokens)
        results.append({"kind": PREFILL, "num_tokens": num_tokens, **describe_times(prefills)})
        progress.update(task, advance=1, description="steps of all kinds", refresh=True)
        points = measure_points(engine, bench.requests, clock, batch_sizes) if args.json else []
    weights = model.decoder.bytes_per_token
    return {
        "bench": "step",
        "model": args.model,
        "dtype": args.dtype,
        "device": model.device.type,
        "threads": args.num_threads,
        "attention_backend": engine.core.runner.attention_backend,
        "context": args.context,
        "left_out_batch_sizes": [size for size in asked if size not in batch_sizes],
        "steps": args.steps,
        "seed": args.seed,
        "weight_bytes": weights,
        "machine_speed": asdict(speed),
        "read_weights_s": speed.seconds_to_read(weights),
        "results": results,
        "points": [asdict(point) for point in points],
        **describe_environment("torch"),
    }


def _engine_config(args: argparse.Namespace, batch_sizes: Sequence[int]) -> EngineConfig:
    return EngineConfig(
        model=args.model,
        dtype=args.dtype,
        max_num_seqs=max(batch_sizes),
        # Leave room for prompts in a step with all decodes.
        max_num_batched_tokens=max(EngineConfig().max_num_batched_tokens, 2 * max(batch_sizes)),
        enforce_eager=True,  # CUDA graphs would hide the parts of a step
        attention_backend=args.attention_backend,
        linear_backend=args.linear_backend,
        custom_ops=args.custom_ops,
    )


def num_tokens_needed(engine: LLMEngine, batch_size: int, context: int, num_steps: int) -> int:
    """Return a sequence's number of tokens, prompt included, after the last measured step."""
    # Until all prompts are computed, each step is full, with at most `batch_size` decodes.
    starting = math.ceil(batch_size * context / (engine.config.max_num_batched_tokens - batch_size))
    return context + starting + WARM_UP_STEPS + 3 * num_steps + 1


def fitting_batch_sizes(args: argparse.Namespace, engine: LLMEngine) -> list[int]:
    """Return the requested batch sizes, or the usual ones that fit.

    Raises `BenchError` if a requested batch size does not fit, or if no usual one fits.
    """
    fitting: list[int] = []
    for size in args.batch_sizes or USUAL_BATCH_SIZES:
        why = _why_too_large(size, args, engine)
        if why is None:
            fitting.append(size)
        elif args.batch_sizes or not fitting:
            raise BenchError(why)
    return fitting


def _why_too_large(batch_size: int, args: argparse.Namespace, engine: LLMEngine) -> str | None:
    needed = num_tokens_needed(engine, batch_size, args.context, args.steps)
    if needed > engine.max_model_len:
        return (
            f"--context {args.context} and 3 times --steps {args.steps} need {needed} tokens in a"
            f" batch of {batch_size}, but max_model_len of {args.model} is {engine.max_model_len}:"
            " lower one of them."
        )
    num_blocks, block_size = engine.core.runner.num_blocks, engine.config.block_size
    if batch_size * math.ceil(needed / block_size) > num_blocks:
        return (
            f"The KV cache ({num_blocks} blocks of {block_size} tokens) cannot hold {batch_size}"
            f" sequences of {needed} tokens: lower --batch-sizes, --context or --steps."
        )
    return None


def batch_sizes(text: str) -> list[int]:
    sizes = list(positive_ints(text))
    if max(sizes) > MAX_NUM_SEQS:
        raise argparse.ArgumentTypeError(f"must be at most {MAX_NUM_SEQS}; got {max(sizes)}.")
    return sizes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parts = "; ".join(f"{name}: {what}" for name, what in (MODEL_PARTS | OUTSIDE_PARTS).items())
    parser.epilog = f"Parts of a step. {parts}."
    add_model_arguments(parser)
    parser.add_argument(
        "--batch-sizes",
        type=batch_sizes,
        metavar="N,...",
        help=(
            f"numbers of running sequences (default: {','.join(map(str, USUAL_BATCH_SIZES))}, those"
            " that fit)"
        ),
    )
    for name, choices in (("attention", AttentionBackendName), ("linear", LinearBackendName)):
        parser.add_argument(
            f"--{name}-backend",
            choices=get_args(choices),
            default="auto",
            help="default: %(default)s, the fastest",
        )
    parser.add_argument(
        "--custom-ops",
        action="append",
        choices=get_args(CustomOp),
        help=(
            "operations that run as kernels; may be given several times (default: all if attention"
            " runs in kernels)"
        ),
    )
    parser.add_argument(
        "--context",
        type=positive_int,
        default=128,
        help="tokens of each sequence (default: %(default)s)",
    )
    parser.add_argument(
        "--steps",
        type=positive_int,
        default=NUM_STEPS,
        help="steps for each way of measuring and batch size (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed for the prompts (default: %(default)s)"
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="write some steps, from torch's profiler and the engine's events, for Perfetto",
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    result = measure(args)
    columns, rows = table(result)
    title = (
        f"Milliseconds of a step, and % of it: {result['model']} {result['dtype']} on"
        f" {result['device']}, {result['threads']} threads, {result['context']} tokens of context"
    )
    print_report(title, columns, rows, notes(result), result, args.json)
    return 0
