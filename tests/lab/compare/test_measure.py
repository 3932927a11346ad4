"""Comparisons of memory use and number of steps, which need no model."""

import pytest

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.configurations import parse_configuration
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.lab.common.traffic import RandomRunner, WordTokenizer
from minivllm.lab.compare.measure import Measured, measure_recording
from minivllm.lab.compare.run import play
from minivllm.lab.compare.trace import make_trace


class ChatTokenizer(WordTokenizer):
    """`make_trace` requires a template, but the traces of lengths do not use it."""

    apply_chat_template = None


@pytest.fixture(scope="module")
def measure(tmp_path_factory):
    """Run a scenario on a configuration with an instant runner; cached for all tests."""
    done: dict[tuple[str, str], Measured] = {}

    def run(name: str, scenario: str) -> Measured:
        if (name, scenario) not in done:
            trace = make_trace(scenario, ChatTokenizer(), 0)
            config = EngineConfig(
                model="none", **parse_configuration(name).options_for(trace.options)
            )
            runner = RandomRunner(config.num_gpu_blocks_override, seed=0)
            runner.max_model_len = config.max_model_len
            engine = LLMEngine(config, runner, WordTokenizer(), clock=VirtualClock())
            path = tmp_path_factory.mktemp("compare") / "run.jsonl"
            with LogWriter(path, engine.log_header()) as writer:
                engine.subscribe(writer.write)
                outputs = play(engine, trace)
            wanted = {request.request_id: request.params.max_tokens for request in trace.requests}
            assert {name: len(output) for name, (output,) in outputs.items()} == wanted
            done[name, scenario] = measure_recording(name, path)
        return done[name, scenario]

    return run


def test_paged_memory_wastes_under_four_percent_and_holds_more_requests_at_once(measure):
    paged = measure("continuous+paged", "lengths-64-1024").as_json()
    contiguous = measure("continuous+contiguous", "lengths-64-1024").as_json()
    assert paged["kv_waste"] < 0.04 and contiguous["kv_waste"] > 0.6
    assert contiguous["max_running"] == 4, "512 blocks, 128 to each"
    assert paged["max_running"] > 4 * contiguous["max_running"]


@pytest.mark.parametrize(
    "slower",
    [
        "static+paged",
        pytest.param("continuous+contiguous", marks=pytest.mark.slow),
        pytest.param("sequential", marks=pytest.mark.slow),
    ],
)
def test_every_baseline_takes_more_steps_for_the_same_tokens(measure, slower):
    ours, theirs = measure("continuous+paged", "lengths-8-256"), measure(slower, "lengths-8-256")
    assert theirs.output_tokens == ours.output_tokens
    assert len(theirs.usage) > 1.2 * len(ours.usage)
