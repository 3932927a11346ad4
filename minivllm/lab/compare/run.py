"""Runs a trace through one configuration and records it.

The model is loaded once for both sides; each side gets an engine and a KV cache of its own. On a
CPU a second is one of the engine's own processor time: by the clock on the wall, the side that
happens to run while the machine is busy would lose. The easy thing to get wrong is the first run:
it pays for memory and kernels that the second finds ready, so each configuration answers one short
request on an engine that is thrown away before it is timed.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from minivllm.clock import MonotonicClock, ProcessorClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.lab.compare.trace import Trace, TraceRequest
from minivllm.lessons.scenarios.player import ScenarioPlayer
from minivllm.sampling_params import SamplingParams

if TYPE_CHECKING:
    from minivllm.runtime.loader import LoadedModel


@dataclass(frozen=True, slots=True)
class Run:
    """What came back; all else is in the recording."""

    num_blocks: int
    block_size: int
    clock: Literal["processor", "wall"]
    """What a second of the recording is."""
    outputs: dict[str, list[list[int]]]
    """By request: the token ids of each of its outputs."""


class TracePlayer(ScenarioPlayer):
    """Plays a trace as a scenario is played; its prompts are token ids already."""

    def _send(self, arrival: TraceRequest) -> None:
        prompt = {"prompt_token_ids": arrival.prompt_token_ids}
        self._engine.add_request(arrival.request_id, prompt, arrival.params)


def check_trace(config: EngineConfig, model: LoadedModel, trace: Trace) -> int:
    """Send every request of `trace` to an engine that will not run; the number of its blocks.

    Raises the `MinivllmError` that would end the run: before anything has been measured, so that
    nothing is lost.
    """
    engine = LLMEngine.from_model(config, model)
    for request in trace.requests:
        engine.add_request(
            request.request_id, {"prompt_token_ids": request.prompt_token_ids}, request.params
        )
        engine.abort_request(request.request_id)
    return engine.log_header().num_blocks


def run_trace(config: EngineConfig, model: LoadedModel, trace: Trace, recording: Path) -> Run:
    """Run all of `trace` and write `recording`."""
    _warm_up(LLMEngine.from_model(config, model))
    # On a GPU the thread waits for the device, which is what the run costs.
    on_cpu = model.device.type == "cpu"
    engine = LLMEngine.from_model(
        config, model, clock=ProcessorClock() if on_cpu else MonotonicClock()
    )
    gc.collect()
    header = engine.log_header()
    with LogWriter(recording, header) as writer:
        engine.subscribe(writer.write)
        outputs = play(engine, trace)
    return Run(header.num_blocks, header.block_size, "processor" if on_cpu else "wall", outputs)


def play(engine: LLMEngine, trace: Trace) -> dict[str, list[list[int]]]:
    """Send all requests and step until they have ended; the token ids of their outputs."""
    outputs: dict[str, list[list[int]]] = {}
    player = TracePlayer(trace, engine)
    player.before_step()
    while not player.over:
        for output in engine.step():
            outputs[output.request_id] = [list(one.token_ids) for one in output.outputs]
        player.before_step()
    return outputs


def _warm_up(engine: LLMEngine) -> None:
    params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    engine.add_request("warm-up", {"prompt_token_ids": [1] * 8}, params)
    while engine.has_unfinished_requests():
        engine.step()
