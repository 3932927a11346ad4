"""Stage `demo`: runs the demo's scenario on this device, and records all events to DIR/demo.jsonl.

The kernel x-ray traces one decode, as key `X` does in the dashboard. In the same step, the
attention mass of each block is recorded.
"""

from pathlib import Path
from typing import Any

from stage_file import StageFailedError, StageFile

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import ModelError
from minivllm.events import types as ev
from minivllm.events.recording.log import LogWriter
from minivllm.lessons.scenarios.player import ScenarioPlayer
from minivllm.lessons.scenarios.scenarios import SCENARIOS, Scenario
from minivllm.runtime.store.model_store import resolve_model

SCENARIO = "shared-prefix"
"""The default scenario of `minivllm demo`. The first request is long enough for two key tiles."""
MODELS = ("smollm2", "tiny-random")
"""The first available model is used, unless `--model` names one. A dry run uses tiny-random."""


def run(report: StageFile, *, dry_run: bool, model: str | None, recording: Path) -> None:
    """Play and record the scenario. Raises `StageFailedError` if the kernel was not traced."""
    key = f"demo/{SCENARIO}"
    if not report.wants(key):
        return
    scenario = SCENARIOS[SCENARIO]
    name = model or ("tiny-random" if dry_run else _first_model_found())
    engine = LLMEngine.from_config(
        EngineConfig(**scenario.options, model=name, check_invariants=True)
    )
    clock = MonotonicClock()
    started = clock.now()
    row = _play(scenario, engine, recording)
    seconds = clock.now() - started
    report.add(
        {
            "key": key,
            "model": name,
            "device": str(engine.core.runner._model.device),
            "attention_backend": engine.core.runner.attention_backend,
            "recording": recording.name,
            "seconds": seconds,
            "runs": [seconds],
            **row,
        }
    )
    if row["trace_problem"] is not None:
        raise StageFailedError(f"The kernel x-ray gave no trace: {row['trace_problem']}")


def _first_model_found() -> str:
    for name in MODELS[:-1]:
        try:
            resolve_model(name)
        except ModelError:
            continue
        return name
    return MODELS[-1]


def _play(scenario: Scenario, engine: LLMEngine, recording: Path) -> dict[str, Any]:
    events: list[ev.Event] = []
    player, watched = ScenarioPlayer(scenario, engine), None
    recording.unlink(missing_ok=True)
    with LogWriter(recording, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        engine.subscribe(events.append)
        player.before_step()
        while not player.over:
            if watched is None and (watched := _decoding_sequence(events)) is not None:
                engine.record_attention_mass(True)
                engine.trace_kernel(watched)
                engine.step()
                engine.record_attention_mass(False)
            else:
                engine.step()
            player.before_step()
    traces = [event for event in events if isinstance(event, ev.KernelTraced)]
    return {
        "events": len(events),
        "steps": events[-1].step,
        "traced": [trace.seq_id for trace in traces],
        "traced_programs": sum(len(trace.programs) for trace in traces),
        "trace_problem": next(
            (trace.problem for trace in traces),
            "the scenario ended before a decode step was traced.",
        ),
        "attention_mass_events": sum(isinstance(event, ev.AttentionMass) for event in events),
    }


def _decoding_sequence(events: list[ev.Event]) -> str | None:
    ended = {event.seq_id for event in events if isinstance(event, ev.RequestFinished)}
    return next(
        (e.seq_id for e in events if isinstance(e, ev.TokenSampled) and e.seq_id not in ended), None
    )
