"""The step bench: its parts add up, it leaves the engine unchanged, and points describe steps."""

import pytest

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.lab.bench.step.parts import MODEL_PARTS, OUTSIDE_PARTS, watch_parts
from minivllm.lab.bench.step.points import RandomRequests, measure_points
from minivllm.lab.bench.step.step import StepBench
from minivllm.lab.common.stopwatch import Stopwatch


@pytest.fixture
def engine() -> LLMEngine:
    return LLMEngine.from_config(
        EngineConfig(model="tiny-random", device="cpu", max_num_seqs=4, max_model_len=1024)
    )


class CountingClock:
    """One second passes between any two readings."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        self.seconds += 1.0
        return self.seconds


class Worker:
    def outer(self) -> None:
        self.inner()
        self.inner()

    def inner(self) -> None:
        pass


def test_time_counts_only_for_the_innermost_part():
    stopwatch, worker = Stopwatch(CountingClock().now), Worker()
    with stopwatch.methods([(worker, "outer", "a"), (worker, "inner", "b")]):
        worker.outer()
    # 6 readings: a, b in, b out, b in, b out, a out.
    assert stopwatch.seconds == {"a": 3.0, "b": 2.0}
    assert vars(worker) == {}


def test_every_measured_step_decodes_the_whole_batch_and_has_all_parts(engine, monkeypatch):
    seen = []

    def step(engine: LLMEngine, step=LLMEngine.step) -> list:
        outputs = step(engine)
        seen.append([item.kind for item in engine._stepper.last_plan.scheduled])
        return outputs

    monkeypatch.setattr(LLMEngine, "step", step)
    # The first prompt has decoded for many steps when the last one is computed.
    bench = StepBench(engine, MonotonicClock(), seed=0)
    times = bench.measure_decodes(batch_size=4, context=800, num_steps=3)
    assert seen[-9:] == [["decode"] * 4] * 9
    assert not engine.has_unfinished_requests()
    assert set(times.parts) == {*MODEL_PARTS, *OUTSIDE_PARTS}
    assert len(times.plain) == len(times.watched) == len(times.recorded) == 3
    assert min(times.plain) > 0 and all(seconds > 0 for seconds in times.parts.values())


def test_watching_changes_no_token_and_leaves_no_trace(engine):
    def tokens(is_watched: bool) -> list[list[int]]:
        requests = RandomRequests(engine, seed=7)
        requests.add(20, max_tokens=6)
        outputs = []
        while engine.has_unfinished_requests():
            if is_watched:
                with watch_parts(engine, Stopwatch(MonotonicClock().now)):
                    outputs = engine.step()
            else:
                outputs = engine.step()
        return [output.outputs[0].token_ids for output in outputs]

    decoder = engine._stepper.runner._model.decoder
    assert tokens(is_watched=False) == tokens(is_watched=True)
    assert not any(
        module._forward_hooks or module._forward_pre_hooks for module in decoder.modules()
    )
    assert "step" not in vars(engine) and "compute_logits" not in vars(decoder)


def test_points_cover_prompts_chunks_with_context_decodes_and_both_at_once(engine):
    points = measure_points(engine, RandomRequests(engine, seed=0), MonotonicClock(), [1, 4])
    kinds = {(bool(point.num_decodes), bool(point.num_prefill_tokens)) for point in points}
    assert kinds == {(True, False), (False, True), (True, True)}
    chunks = [point for point in points if not point.num_decodes and point.num_context_tokens]
    assert [(chunk.num_prefill_tokens, chunk.num_context_tokens) for chunk in chunks] == [
        (388, 512)
    ]
    for point in points:
        assert point.num_scheduled_tokens == point.num_decodes + point.num_prefill_tokens
        assert point.seconds > 0
