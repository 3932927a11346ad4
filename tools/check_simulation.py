"""Compares `minivllm simulate` with the real engine on this machine, on the same requests.

    .venv/bin/python tools/check_simulation.py --json
        # SmolLM2, three rounds
    .venv/bin/python tools/check_simulation.py --clock cpu --num-threads 1 --json
        # on a machine that other users share

Each round runs requests on the engine in real time, and simulates them twice:

    other steps   with step times of other requests, half before and half after the round
    own steps     with the step times of the round itself

The tool reports ratios of throughput (goal: within 10 %) and of p50 latencies (goal: within 15 %).
If the two simulations differ, the machine's speed has changed.

With `--clock cpu`, time is the processor time of this process. This clock needs a single thread,
because processor time adds up the times of all threads.
"""

import argparse
import itertools
import statistics
import time
from dataclasses import asdict

import numpy as np

from minivllm.clock import Clock, MonotonicClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.lab.bench.step.points import RandomRequests, StepPoint, measure_points, timed_step
from minivllm.lab.common.environment import describe_environment, set_num_threads
from minivllm.lab.common.report import (
    add_json_argument,
    add_model_arguments,
    positive_int,
    print_report,
)
from minivllm.lab.simulate.arrivals import Arrival
from minivllm.lab.simulate.configurations import comfortable_rate
from minivllm.lab.simulate.fit import fit_step_times
from minivllm.lab.simulate.measure import summarise
from minivllm.lab.simulate.replica import make_request
from minivllm.lab.simulate.run import Setup, build_replicas, simulate
from minivllm.lab.simulate.workload import CrowdOptions, at_rate, draw_crowd
from minivllm.sampling_params import RequestOutputKind, SamplingParams

METRICS = ("output_throughput", "p50_ttft_ms", "p50_itl_ms", "p50_tpot_ms", "p50_e2el_ms")
KINDS = ("other steps", "own steps")
BATCH_SIZES = [1, 4, 16]


class WallClock(MonotonicClock):
    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


class CpuClock(MonotonicClock):
    """Processor time of this process; waiting advances the clock without sleeping."""

    def __init__(self) -> None:
        self._waited = 0.0

    def now(self) -> float:
        return time.process_time() + self._waited

    def wait(self, seconds: float) -> None:
        self._waited += seconds


CLOCKS = {"wall": WallClock, "cpu": CpuClock}


def main() -> int:
    args = parse_options()
    set_num_threads(args.num_threads)
    config = EngineConfig(
        model=args.model, dtype=args.dtype, max_model_len=2048, num_gpu_blocks_override=1456
    )
    clock = CLOCKS[args.clock]()
    engine = LLMEngine.from_config(config, clock=clock)
    # Use new seeds each time, because repeated prompts would hit the prefix cache.
    seeds = itertools.count(1000 * args.seed)
    calibrate(engine, clock, next(seeds))  # warm-up
    points = calibrate(engine, clock, next(seeds))
    rounds = []
    for number in range(args.rounds):
        options = CrowdOptions(
            num_prompts=args.requests,
            random_output_len=64,
            random_range_ratio=0.5,
            seed=args.seed + number,
        )
        crowd = draw_crowd(options, config.max_model_len)
        setup = Setup(config, replicas=1, router="random")
        crowd = at_rate(crowd, comfortable_rate(crowd, setup, fit_step_times(points)))
        measured, own_steps = run_for_real(
            engine, clock, crowd, first_number=number * args.requests
        )
        before, points = points, calibrate(engine, clock, next(seeds))
        by = {
            "other steps": predict(setup, crowd, before + points),
            "own steps": predict(setup, crowd, own_steps),
        }
        ratio = {
            kind: {name: one[name] / measured[name] for name in METRICS} for kind, one in by.items()
        }
        rounds.append({"measured": measured, "simulated": by, "ratio": ratio})
    report(args, rounds)
    return 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_model_arguments(parser)
    parser.add_argument(
        "--requests",
        type=positive_int,
        default=60,
        help="requests per round (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=positive_int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed of the first round's requests (default: %(default)s)",
    )
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="clock that measures seconds (default: %(default)s)",
    )
    add_json_argument(parser)
    args = parser.parse_args()
    if args.clock == "cpu" and args.num_threads > 1:
        parser.error("--clock cpu needs --num-threads 1")
    return args


def calibrate(engine: LLMEngine, clock: Clock, seed: int) -> list[StepPoint]:
    return measure_points(engine, RandomRequests(engine, seed), clock, BATCH_SIZES)


def predict(setup: Setup, crowd: list[Arrival], points: list[StepPoint]) -> dict[str, float]:
    fit = fit_step_times(points)
    replicas = build_replicas(setup, fit)
    simulate(setup, replicas, crowd)
    answer = summarise(replicas, {}) | asdict(fit)
    return {name: answer[name] for name in (*METRICS, "r_squared", "median_relative_error")}


def run_for_real(
    engine: LLMEngine, clock: WallClock | CpuClock, crowd: list[Arrival], first_number: int
) -> tuple[dict[str, float], list[StepPoint]]:
    """Send each request at its arrival time, and measure like the simulation.

    Requests are numbered from `first_number`. The prompt of a number that an earlier round used
    would hit the prefix cache.
    """
    tokens: dict[str, list[float]] = {}

    def note(event: ev.Event) -> None:
        if isinstance(event, ev.TokenSampled):
            tokens.setdefault(event.seq_id, []).append(event.t)

    unsubscribe = engine.subscribe(note)
    waiting = list(reversed(list(enumerate(crowd, first_number))))
    steps: list[StepPoint] = []
    began = clock.now()
    while waiting or engine.has_unfinished_requests():
        now = clock.now() - began
        while waiting and waiting[-1][1].at <= now:
            number, arrival = waiting.pop()
            params = SamplingParams(
                temperature=0,
                max_tokens=arrival.output_tokens,
                ignore_eos=True,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
            prompt = {"prompt_token_ids": make_request(number, arrival).prompt_token_ids}
            engine.add_request(str(number), prompt, params)
        if engine.has_unfinished_requests():
            steps.append(timed_step(engine, clock))
        else:
            clock.wait(max(0.0, waiting[-1][1].at - now))
    ended = clock.now() - began
    unsubscribe()
    times = [
        np.array(tokens[f"{number}.0"]) - began for number, _ in enumerate(crowd, first_number)
    ]
    arrivals = [arrival.at for arrival in crowd]
    milliseconds = {
        "p50_ttft_ms": [own[0] - at for own, at in zip(times, arrivals, strict=True)],
        "p50_itl_ms": np.concatenate([np.diff(own) for own in times]),
        "p50_tpot_ms": [(own[-1] - own[0]) / (len(own) - 1) for own in times if len(own) > 1],
        "p50_e2el_ms": [own[-1] - at for own, at in zip(times, arrivals, strict=True)],
    }
    measured = {
        name: float(np.percentile(seconds, 50)) * 1000 for name, seconds in milliseconds.items()
    }
    return {"output_throughput": sum(map(len, times)) / (ended - arrivals[0]), **measured}, steps


def report(args: argparse.Namespace, rounds: list[dict[str, object]]) -> None:
    rows = []
    median: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        for name in METRICS:
            ratios = [one["ratio"][kind][name] for one in rounds]
            pairs = [
                f"{one['simulated'][kind][name]:,.1f} / {one['measured'][name]:,.1f}"
                for one in rounds
            ]
            median.setdefault(kind, {})[name] = statistics.median(ratios)
            spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
            rows.append((f"{name}, {kind}", *pairs, spread))
    result = {
        "check": "simulation",
        "model": args.model,
        "dtype": args.dtype,
        "threads": args.num_threads,
        "clock": args.clock,
        "requests": args.requests,
        "rounds": rounds,
        "median_ratio": median,
        **describe_environment("torch"),
    }
    title = (
        f"Simulated / measured, {args.model} {args.dtype}, {args.num_threads} threads, {args.clock}"
        f" clock, {args.requests} requests a round"
    )
    header = ("", *(f"round {number + 1}" for number in range(len(rounds))), "ratio")
    print_report(title, header, rows, [], result, args.json)


if __name__ == "__main__":
    raise SystemExit(main())
