"""Traces of a comparison, and what it counts: memory use and steps, which need no model."""

import pytest
from support.engine.engine_fakes import FakeTokenizer

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.configurations import parse_configuration
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.lab.compare.measure import Measured, measure_recording
from minivllm.lab.compare.run import check_trace, play
from minivllm.lab.compare.trace import TRACE_NAMES, fitted, make_trace
from minivllm.lessons.scenarios.scripted import ScriptedRunner, ScriptedTokenizer
from minivllm.runtime.loader import load_model


def measure(name: str, scenario: str, folder) -> Measured:
    """Run a scenario on a configuration with an instant runner."""
    trace = make_trace(scenario, FakeTokenizer(), 0)
    options = parse_configuration(name).options_for(trace.options)
    config = EngineConfig(model="none", **options)
    runner = ScriptedRunner(config.num_gpu_blocks_override, config.max_model_len, lambda _: 7)
    tokenizer = ScriptedTokenizer(str, vocab_size=50_000)
    engine = LLMEngine(config, runner, tokenizer, clock=VirtualClock())
    path = folder / f"{name}.jsonl"
    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        outputs = play(engine, trace, lambda steps, ended: None)
    wanted = {request.request_id: request.params.max_tokens for request in trace.arrivals}
    assert {name: len(output) for name, (output,) in outputs.items()} == wanted
    return measure_recording(path)


def test_paged_memory_wastes_under_four_percent_and_holds_more_requests_at_once(tmp_path):
    paged, contiguous = (
        measure(name, "lengths-64-1024", tmp_path).figures
        for name in ("continuous+paged", "continuous+contiguous")
    )
    assert paged["kv_waste"] < 0.04 and contiguous["kv_waste"] > 0.6
    assert contiguous["max_running"] == 4, "512 blocks, 128 to each"
    assert paged["max_running"] > 4 * contiguous["max_running"]


@pytest.mark.parametrize("name", ["house", "tiny-random"])
def test_every_scenario_fits_every_model(name, subtests):
    model = load_model(EngineConfig(model=name))
    for scenario in TRACE_NAMES:
        with subtests.test(scenario):
            trace = make_trace(scenario, model.tokenizer, 0)
            trace = fitted(trace, model.config.max_position_embeddings)
            check_trace(EngineConfig(model=name, **trace.options), model, trace)
            assert all(request.params.max_tokens >= 1 for request in trace.arrivals)
