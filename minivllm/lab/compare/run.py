"""Runs a trace through one configuration and records it.

Both configurations share one loaded model, but each has its own engine and KV cache. On a CPU, time
is the processor time of the engine's thread, because wall-clock time is unreliable on a busy
machine. As a warm-up, another engine first answers one short request.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

from minivllm import runtime
from minivllm.clock import MonotonicClock, ProcessorClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.lab.compare.measure import Measured, measure_recording
from minivllm.lab.plot import Curves, plot
from minivllm.lessons.scenarios.player import ScenarioPlayer, send
from minivllm.lessons.scenarios.scenario import Scenario
from minivllm.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class Run:
    recording: Path
    measured: Measured
    clock: Literal["processor", "wall"]
    outputs: dict[str, list[list[int]]]
    """Request id -> token ids of each output of the request."""


def check_trace(config: EngineConfig, model: runtime.LoadedModel, trace: Scenario) -> None:
    """Raise the engine's `MinivllmError` if it refuses a request of `trace`; run no step."""
    engine = LLMEngine.from_model(config, model)
    for request in trace.arrivals:
        send(engine, request)
        engine.abort_request(request.request_id)


def run_trace(
    config: EngineConfig,
    model: runtime.LoadedModel,
    trace: Scenario,
    recording: Path,
    watch: Callable[[int, int], object] = lambda steps, ended: None,
) -> Run:
    """watch: called after each step with the number of steps, and of requests that have ended"""
    _warm_up(LLMEngine.from_model(config, model))
    # On a GPU, processor time leaves out the wait for the device, so use the wall clock.
    on_cpu = model.device.type == "cpu"
    clock = ProcessorClock() if on_cpu else MonotonicClock()
    engine = LLMEngine.from_model(config, model, clock=clock)
    gc.collect()
    with LogWriter(recording, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        outputs = play(engine, trace, watch)
    return Run(recording, measure_recording(recording), "processor" if on_cpu else "wall", outputs)


def play(
    engine: LLMEngine, trace: Scenario, watch: Callable[[int, int], object]
) -> dict[str, list[list[int]]]:
    """Send all requests and step until all have ended; return token ids by request id."""
    outputs: dict[str, list[list[int]]] = {}
    player, steps = ScenarioPlayer(trace, engine), count(1)
    player.before_step()
    while not player.over:
        for request in engine.step():
            outputs[request.request_id] = [list(output.token_ids) for output in request.outputs]
        watch(next(steps), len(outputs))
        player.before_step()
    return outputs


def _warm_up(engine: LLMEngine) -> None:
    params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    engine.add_request("warm-up", {"prompt_token_ids": [1] * 8}, params)
    while engine.has_unfinished_requests():
        engine.step()


def plot_runs(title: str, runs: Iterable[tuple[str, Run]], path: Path) -> None:
    sides = []
    for name, run in runs:
        usage = run.measured.usage
        times = [sample.t - run.measured.began for sample in usage]
        used = [100 * sample.used / sample.total for sample in usage]
        allocated = [100 * sample.allocated / sample.total for sample in usage]
        running = [sample.num_running for sample in usage]
        sides.append(Curves(name, *run.measured.latencies, times, used, running, allocated))
    plot(title, sides, path, "Time between tokens", "Requests running at once")
