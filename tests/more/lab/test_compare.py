"""Traces of a comparison, and what it counts: memory use and steps, which need no model."""

import pytest
from support.engine.engine_fakes import FakeTokenizer

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.configurations import parse_configuration
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.lab.compare.measure import measure_recording
from minivllm.lab.compare.run import check_trace, play
from minivllm.lab.compare.trace import TRACE_NAMES, fitted, make_trace
from minivllm.lessons.scenarios.scripted import ScriptedRunner, ScriptedTokenizer
from minivllm.runtime.loader import load_model


def figures(name: str, folder) -> dict:
    """Of a run on a configuration with an instant runner."""
    trace = make_trace("lengths-64-1024", FakeTokenizer(), 0)
    options = parse_configuration(name).options_for(trace.options)
    config = EngineConfig(model="none", **options)
    runner = ScriptedRunner(config.num_gpu_blocks_override, config.max_model_len, lambda _: 7)
    tokenizer = ScriptedTokenizer(str, vocab_size=50_000)
    engine = LLMEngine(config, runner, tokenizer, clock=VirtualClock())
    with LogWriter(path := folder / f"{name}.jsonl", engine.log_header()) as writer:
        engine.subscribe(writer.write)
        outputs = play(engine, trace, lambda steps, ended: None)
    wanted = {request.request_id: request.params.max_tokens for request in trace.arrivals}
    assert {name: len(output) for name, (output,) in outputs.items()} == wanted
    return measure_recording(path).figures


def test_paged_memory_wastes_under_four_percent_and_holds_more_requests_at_once(tmp_path):
    paged, contiguous = (figures(name, tmp_path) for name in ("paged", "contiguous"))
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
            for side in map(parse_configuration, trace.sides):
                config = EngineConfig(model=name, **side.options_for(trace.options))
                check_trace(config, model, trace)
