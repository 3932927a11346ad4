#!/usr/bin/env python3
"""Plays the demo's scenarios on the house model and records them in docs/assets/recordings.

    tools/pictures/make_recordings.py                     # all of them, in place
    tools/pictures/make_recordings.py --scenario burst    # only this one; can be repeated

Besides the scenarios there are `policies` (one scenario under two policies, for `replay --with`),
`x-ray` (one decode under the kernel x-ray) and `choice` (a story whose words are explained).

All settings that depend on the machine are fixed: virtual clock, CPU, float32, one thread. So each
run writes the same bytes, and a test checks this. Only in `beams`, `x-ray`, `choice` and
`structured`, the last digits may differ on another kind of processor.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.configurations import parse_configuration
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.lab.compare.run import play
from minivllm.lab.compare.trace import make_trace
from minivllm.lessons.scenarios.house import for_the_house_model
from minivllm.lessons.scenarios.player import ScenarioPlayer
from minivllm.lessons.scenarios.scenario import Scenario, ScenarioRequest
from minivllm.lessons.scenarios.scenarios import SCENARIOS
from minivllm.lessons.teacher.prompts import LESSON_MODEL
from minivllm.runtime.loader import load_model

RECORDINGS = Path(__file__).resolve().parents[2] / "docs/assets/recordings"
FIXED = {
    "dtype": "float32", "device": "cpu", "attention_backend": "torch", "check_invariants": True,
}  # fmt: skip
POLICIES = ("static+contiguous", "continuous+paged")
"""Names of configurations, as in `minivllm compare`: how engines served in the past, and today."""
POLICIES_SCENARIO, CHOICE_SCENARIO = "burst", "shared-prefix"
XRAY_SCENARIO = "shared-prefix"
"""The first request of this scenario is long enough for two tiles of keys."""
EXPLAINED_SCENARIO = "structured"
"""Only a watched sequence shows what its grammar allows."""


@contextmanager
def recorded_engine(
    path: Path, model: str = LESSON_MODEL, **options: object
) -> Iterator[LLMEngine]:
    """An engine whose events go to a recording."""
    path.parent.mkdir(parents=True, exist_ok=True)
    config = EngineConfig(**{**options, **FIXED, "model": model})
    engine = LLMEngine.from_config(config, clock=VirtualClock())
    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        yield engine


def record(scenario: Scenario, model: str, path: Path) -> None:
    if model == LESSON_MODEL:
        scenario = for_the_house_model(scenario)
    explained = scenario.name == EXPLAINED_SCENARIO
    options = {**scenario.options, "explain_tokens": explained}
    with recorded_engine(path, model, **options) as engine:
        player = ScenarioPlayer(scenario, engine)
        player.before_step()
        while not player.over:
            engine.step()
            player.before_step()


def record_policies(folder: Path) -> None:
    """Run the same requests under two policies.

    Unlike in `minivllm compare`, a text ends where the model ends it. Both policies compute the
    same texts, so neither side wins with shorter ones.
    """
    common = {**FIXED, "model": LESSON_MODEL}
    model = load_model(EngineConfig(**common))
    trace = may_end(make_trace(POLICIES_SCENARIO, model.tokenizer, seed=0))
    folder.mkdir(parents=True, exist_ok=True)
    for name in POLICIES:
        config = EngineConfig(**{**common, **parse_configuration(name).options_for(trace.options)})
        engine = LLMEngine.from_model(config, model, clock=VirtualClock())
        with LogWriter(folder / f"{name}.jsonl", engine.log_header()) as writer:
            engine.subscribe(writer.write)
            play(engine, trace)


def may_end(trace: Scenario) -> Scenario:
    waves = (
        tuple(replace(ask, params=replace(ask.params, ignore_eos=False)) for ask in wave)
        for wave in trace.waves
    )
    return replace(trace, waves=tuple(waves))


def record_xray(path: Path) -> None:
    """Record a few steps of one request. The second decode also records attention.

    Attention is recorded as the mass per block over all layers, and as the x-ray of one layer.
    """
    scenario = SCENARIOS[XRAY_SCENARIO]
    options = {**scenario.options, "num_gpu_blocks_override": 16}
    with recorded_engine(path, **options) as engine:
        first = scenario.arrivals[0]
        add(engine, first, max_tokens=4)
        engine.step()
        engine.step()
        engine.record_attention_mass(True)
        engine.trace_kernel(f"{first.request_id}.0")
        engine.step()
        engine.record_attention_mass(False)
        engine.step()


def record_choice(path: Path) -> None:
    """Record a story at temperature 1.5, with an explanation of each token, beside a greedy one."""
    scenario = for_the_house_model(SCENARIOS[CHOICE_SCENARIO])
    drawn = {"temperature": 1.5, "top_k": 6, "top_p": 0.9, "seed": 7}
    greedy = {"temperature": 0.0, "top_p": 1.0, "seed": None}
    with recorded_engine(path, **scenario.options) as engine:
        for request, options in zip(scenario.arrivals, (drawn, greedy), strict=False):
            add(engine, request, max_tokens=60, **options)
        engine.explain_tokens(f"{scenario.arrivals[0].request_id}.0")
        while engine.has_unfinished_requests():
            engine.step()


def add(engine: LLMEngine, request: ScenarioRequest, **changes: object) -> None:
    messages = list(request.messages)
    prompt = {
        "prompt_token_ids": engine.tokenizer.apply_chat_template(messages),
        "prompt": messages[-1]["content"],
    }
    engine.add_request(request.request_id, prompt, replace(request.params, **changes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=RECORDINGS, help="(default: %(default)s)")
    names = (*SCENARIOS, "policies", "x-ray", "choice")
    parser.add_argument("--scenario", choices=names, action="append", help="(default: all)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.scenario or names:
        print(name)
        match name:
            case "policies":
                record_policies(args.out / name)
            case "x-ray":
                record_xray(args.out / "kernels/x-ray.jsonl")
            case "choice":
                record_choice(args.out / "choice.jsonl")
            case _:
                record(SCENARIOS[name], LESSON_MODEL, args.out / f"{name}.jsonl")


if __name__ == "__main__":
    main()
