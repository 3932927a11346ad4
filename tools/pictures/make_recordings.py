#!/usr/bin/env python3
"""Plays the demo's scenarios on the house model and records them in docs/assets/recordings.

    tools/pictures/make_recordings.py
        # all scenarios on the house model, in place
    tools/pictures/make_recordings.py --model smollm2 --out /tmp/recordings
        # on the chat model
    tools/pictures/make_recordings.py --scenario burst
        # only this scenario; --scenario can be repeated
    tools/pictures/make_recordings.py --scenario policies
        # one scenario under two policies, for `replay --with`
    tools/pictures/make_recordings.py --scenario x-ray
        # one decode under the kernel x-ray
    tools/pictures/make_recordings.py --scenario choice
        # a story whose words are explained

All settings that depend on the machine are fixed: virtual clock, CPU, float32, one thread. So each
run writes the same bytes, and a test checks this. Only in `beams`, `x-ray`, `choice` and
`structured`, the last digits may differ on another kind of processor.
"""

import argparse
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
from minivllm.lessons.scenarios.scenarios import SCENARIOS, Scenario
from minivllm.lessons.teacher.prompts import LESSON_MODEL
from minivllm.runtime.loader import load_model

RECORDINGS = Path(__file__).resolve().parents[2] / "docs/assets/recordings"
FIXED = {
    "dtype": "float32",
    "device": "cpu",
    "attention_backend": "torch",
    "check_invariants": True,
}
POLICIES = ("static+contiguous", "continuous+paged")
"""Names of configurations, as in `minivllm compare`: how engines served in the past, and today."""
POLICIES_SCENARIO = "burst"
XRAY_SCENARIO = "shared-prefix"
"""The first request of this scenario is long enough for two tiles of keys."""
XRAY_STEPS = 4
EXPLAINED_SCENARIO = "structured"
"""Only a watched sequence shows what its grammar allows."""
CHOICE_SCENARIO, CHOICE_TOKENS = "shared-prefix", 60


def record(scenario: Scenario, model: str, path: Path) -> None:
    if model == LESSON_MODEL:
        scenario = for_the_house_model(scenario)
    explained = {"explain_tokens": scenario.name == EXPLAINED_SCENARIO}
    config = EngineConfig(**{**scenario.options, **FIXED, **explained, "model": model})
    engine = LLMEngine.from_config(config, clock=VirtualClock())
    player = ScenarioPlayer(scenario, engine)
    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        player.before_step()
        while not player.over:
            engine.step()
            player.before_step()


def record_policies(model_name: str, folder: Path) -> list[Path]:
    """Run the same requests under two policies; return the recordings.

    Unlike in `minivllm compare`, a text ends where the model ends it. Both policies compute the
    same texts, so neither side wins with shorter ones.
    """
    common = {**FIXED, "model": model_name}
    model = load_model(EngineConfig(**common))
    trace = may_end(make_trace(POLICIES_SCENARIO, model.tokenizer, seed=0))
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in POLICIES:
        config = EngineConfig(**{**common, **parse_configuration(name).options_for(trace.options)})
        engine = LLMEngine.from_model(config, model, clock=VirtualClock())
        path = folder / f"{name}.jsonl"
        with LogWriter(path, engine.log_header()) as writer:
            engine.subscribe(writer.write)
            play(engine, trace)
        paths.append(path)
    return paths


def may_end(trace: Scenario) -> Scenario:
    waves = (
        tuple(replace(one, params=replace(one.params, ignore_eos=False)) for one in wave)
        for wave in trace.waves
    )
    return replace(trace, waves=tuple(waves))


def record_xray(model: str, path: Path) -> None:
    """Record a few steps of one request. The second decode also records attention.

    Attention is recorded as the mass per block over all layers, and as the x-ray of one layer.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scenario = SCENARIOS[XRAY_SCENARIO]
    config = EngineConfig(
        **{**scenario.options, **FIXED, "model": model, "num_gpu_blocks_override": 16}
    )
    engine = LLMEngine.from_config(config, clock=VirtualClock())
    first = scenario.arrivals[0]
    messages = list(first.messages)
    prompt = {
        "prompt_token_ids": engine.tokenizer.apply_chat_template(messages),
        "prompt": messages[-1]["content"],
    }
    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        engine.add_request(first.request_id, prompt, replace(first.params, max_tokens=XRAY_STEPS))
        engine.step()
        engine.step()
        engine.record_attention_mass(True)
        engine.trace_kernel(f"{first.request_id}.0")
        engine.step()
        engine.record_attention_mass(False)
        engine.step()


def record_choice(model: str, path: Path) -> None:
    """Record a story at temperature 1.5, with an explanation of each token, beside a greedy one."""
    scenario = for_the_house_model(SCENARIOS[CHOICE_SCENARIO])
    config = EngineConfig(**{**scenario.options, **FIXED, "model": model})
    engine = LLMEngine.from_config(config, clock=VirtualClock())
    drawn = {"temperature": 1.5, "top_k": 6, "top_p": 0.9, "seed": 7}
    greedy = {"temperature": 0.0, "top_p": 1.0, "seed": None}
    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        for request, options in zip(scenario.arrivals, (drawn, greedy), strict=False):
            messages = list(request.messages)
            prompt = {
                "prompt_token_ids": engine.tokenizer.apply_chat_template(messages),
                "prompt": messages[-1]["content"],
            }
            params = replace(request.params, max_tokens=CHOICE_TOKENS, **options)
            engine.add_request(request.request_id, prompt, params)
        engine.explain_tokens(f"{scenario.arrivals[0].request_id}.0")
        while engine.has_unfinished_requests():
            engine.step()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Record the demo's scenarios; the bytes are the same each time."
    )
    parser.add_argument("--model", default=LESSON_MODEL, help="(default: %(default)s)")
    parser.add_argument(
        "--out",
        type=Path,
        default=RECORDINGS,
        metavar="FOLDER",
        help="(default: docs/assets/recordings)",
    )
    choices = (*SCENARIOS, "policies", "x-ray", "choice")
    parser.add_argument(
        "--scenario", choices=choices, action="append", help="(default: all of them)"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.scenario or choices:
        if name == "policies":
            paths = record_policies(args.model, args.out / name)
        elif name == "x-ray":
            paths = [args.out / "kernels" / f"{name}.jsonl"]
            record_xray(args.model, *paths)
        elif name == "choice":
            paths = [args.out / f"{name}.jsonl"]
            record_choice(args.model, *paths)
        else:
            paths = [args.out / f"{name}.jsonl"]
            record(SCENARIOS[name], args.model, *paths)
        for path in paths:
            print(f"{path}: {path.stat().st_size / 1000:,.0f} kB")


if __name__ == "__main__":
    main()
