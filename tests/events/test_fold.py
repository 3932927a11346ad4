"""The events are enough to rebuild the engine's state."""

import inspect
import re
from importlib import import_module

import msgspec
import pytest
from support.engine.engine_fakes import FakeRunner, FakeTokenizer, WatchedEngine

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events import fold as fold_module
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.recording.fold_codec import FOLD
from minivllm.sampling_params import SamplingParams


def busy_engine(num_steps: int = 0) -> WatchedEngine:
    """A pool under pressure: sharing, evictions, preemptions, finishes and an abort."""
    engine = WatchedEngine(num_blocks=8)
    for i in range(6):
        engine.add(f"r{i}", [*range(6), 40 + i], max_tokens=12)
    for _ in range(num_steps):
        engine.step()
    return engine


def test_the_fold_equals_the_engine_after_every_step_of_a_busy_run():
    engine = busy_engine(num_steps=1)
    engine.engine.abort_request("r3")
    engine.compare()
    engine.run()  # compares after every step
    counters = engine.fold.counters
    assert counters.num_preemptions and counters.prefix_cache_hits and counters.evicted_blocks
    assert (counters.finished_requests, counters.aborted_requests) == (5, 1)
    last = engine.fold.history[-1]
    assert last.text == engine.outputs[last.seq_id.removesuffix(".0")].outputs[0].text
    assert (last.reason, last.num_tokens) == ("length", 7 + 12)


def test_the_fold_equals_the_engine_to_the_last_digit_on_a_real_clock():
    engine = LLMEngine(
        EngineConfig(model="fake", block_size=4), FakeRunner(100, 4), FakeTokenizer()
    )
    fold = Fold(engine.log_header())
    engine.subscribe(fold.apply)
    engine.add_request("a", {"prompt_token_ids": [1, 2, 3]}, SamplingParams(max_tokens=3))
    while engine.has_unfinished_requests():
        assert fold.state == engine.inspect()
        engine.step()
    assert fold.state == engine.inspect()


def test_a_late_view_starts_from_an_inspection():
    engine = busy_engine(num_steps=5)
    late = Fold(engine.engine.log_header(), engine.engine.inspect())
    engine.engine.subscribe(late.apply)
    engine.run()
    assert late.state == engine.engine.inspect()


def test_an_inspection_is_a_copy_that_later_steps_do_not_change():
    engine = busy_engine(num_steps=3)
    state = engine.engine.inspect()
    before = msgspec.json.encode(state)
    engine.run()
    assert msgspec.json.encode(state) == before


def test_a_keyframe_restores_the_whole_fold():
    engine = busy_engine(num_steps=14)
    restored = FOLD.restore(engine.fold.header, FOLD.pack(engine.fold), engine.fold)
    assert restored.state == engine.fold.state
    assert list(restored.history) == list(engine.fold.history)
    assert restored.last_seq == engine.fold.last_seq


def test_the_same_run_gives_the_same_events_byte_for_byte():
    runs = []
    for _ in range(2):
        engine = busy_engine()
        engine.run()
        runs.append(msgspec.json.encode(engine.events))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("kind", ev.EVENT_KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_is_folded_and_names_the_function_that_emits_it(kind):
    assert kind in fold_module._APPLY
    module_name, _, qualified = kind.rule.partition(":")
    target = import_module(module_name)
    for part in qualified.split("."):
        target = getattr(target, part)
    assert re.search(rf"\b{kind.__name__}\b", inspect.getsource(target))
