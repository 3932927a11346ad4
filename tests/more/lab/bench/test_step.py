"""The step bench: its parts add up, it leaves the engine unchanged, and points describe steps."""

from contextlib import AbstractContextManager, nullcontext

import pytest
from support.engine.engine_fakes import run_to_the_end

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.lab.bench.step.parts import Stopwatch, watch_parts
from minivllm.lab.bench.step.points import RandomRequests, measure_points


@pytest.fixture
def engine() -> LLMEngine:
    options = {"model": "tiny-random", "max_num_seqs": 4, "max_model_len": 1024}
    return LLMEngine.from_config(EngineConfig(device="cpu", **options))


def test_watching_changes_no_token_and_leaves_no_trace(engine):
    def tokens(watched: AbstractContextManager) -> list[int]:
        RandomRequests(engine, seed=7).add(20, max_tokens=6)
        with watched:
            (output,) = run_to_the_end(engine).values()
        return output.outputs[0].token_ids

    stopwatch = Stopwatch(MonotonicClock().now)
    assert tokens(nullcontext()) == tokens(watch_parts(engine, stopwatch))
    assert stopwatch.seconds and "step" not in vars(engine)


def test_points_cover_prompts_chunks_with_context_decodes_and_both_at_once(engine):
    points = measure_points(engine, RandomRequests(engine, seed=0), MonotonicClock().now, [1, 4])
    kinds = {(p.num_decodes > 0, p.num_scheduled_tokens > p.num_decodes) for p in points}
    assert kinds == {(True, False), (False, True), (True, True)}
    (chunk,) = (point for point in points if not point.num_decodes and point.num_context_tokens)
    assert (chunk.num_scheduled_tokens, chunk.num_context_tokens) == (388, 512)
