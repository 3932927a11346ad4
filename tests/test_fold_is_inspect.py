"""The promise: the events alone give the engine's state, after every phase of every step.

Dashboard, lessons, recordings and metrics see only events. `Fold` rebuilds the state from them, and
`engine.inspect()` reads the same state from the engine's own objects. In each situation below the
two are compared after every phase: `fold(events) == engine.inspect()`.
"""

import inspect
import re
from importlib import import_module

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine.engine_fakes import fake_engine
from support.engine.followed_run import FollowedRun

from minivllm.clock import Clock, MonotonicClock
from minivllm.config import EngineConfig
from minivllm.errors import SamplingError
from minivllm.events import fold as fold_module
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.runtime.loader import load_model
from minivllm.sampling_params import SamplingParams, StructuredOutputsParams


class Followed:
    """An engine with a fake model, and the fold of its events."""

    def __init__(
        self, num_blocks: int = 100, clock: Clock | None = None, **options: object
    ) -> None:
        # The fake model writes only the tokens 0 and 1, so that a lookup finds drafts.
        self.engine = fake_engine(num_blocks, vocab_size=2, clock=clock, **options)
        self.runner = self.engine.core.runner.plain
        self.events: list[ev.Event] = []
        self.fold = Fold(self.engine.log_header())
        self.engine.subscribe(self.events.append)
        self.engine.subscribe(self.fold.apply)

    def add(self, name: str, prompt: list[int], priority: int = 0, **params: object) -> None:
        sampling = SamplingParams(**{"max_tokens": 8, **params})
        self.engine.add_request(name, {"prompt_token_ids": prompt}, sampling, priority)
        self.compare()

    def phases(self, number: int = 10_000) -> None:
        """Run this many phases, or until every request has ended."""
        for _ in range(number):
            if not self.engine.has_unfinished_requests():
                return
            self.engine.step_phase()
            self.compare()

    def compare(self) -> None:
        assert self.fold.state == self.engine.inspect()

    def kinds(self) -> set[type[ev.Event]]:
        return {type(event) for event in self.events}


# ---- situations, and the events that make them what they are ----

SIX = [(f"r{i}", [*range(6), 40 + i], {"max_tokens": 12}) for i in range(6)]
SITUATIONS = {
    "one request": ({}, SIX[:1], {ev.RequestAdmitted, ev.TokenSampled, ev.RequestFinished}),
    "a prefix that others have computed": ({}, SIX, {ev.BlockHit, ev.BlockMissed}),
    "a pool under pressure": (
        {"num_blocks": 8}, SIX, {ev.RequestPreempted, ev.RequestResumed, ev.BlockEvicted},
    ),
    "priorities under pressure": (
        {"num_blocks": 10, "scheduling_policy": "priority"},
        [(name, prompt, {**params, "priority": -i}) for i, (name, prompt, params) in enumerate(SIX)],
        {ev.RequestPreempted},
    ),
    "samples that share their prompt": (
        {"num_blocks": 16}, [("a", [1] * 10, {"n": 3}), ("b", [1] * 11, {"n": 2, "best_of": 3})],
        {ev.RequestForked, ev.BlockCopied},
    ),
    "beams": (
        {"num_blocks": 20}, [("a", [1] * 10, {"n": 3, "beam_width": 3}), *SIX[:3]],
        {ev.RequestForked, ev.BeamPruned, ev.BeamsFound},
    ),
    "prompts in chunks": ({"max_num_batched_tokens": 5}, SIX, {ev.RequestDeferred}),
    "drafts": (
        {"num_blocks": 12, "speculative_config": {
            "method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}},
        SIX, {ev.DraftProposed, ev.DraftVerified},
    ),
    "a static batch": ({"batching": "static", "max_num_seqs": 2}, SIX, {ev.RequestDeferred}),
    "a batch that waits for others": ({"batch_delay": 0.05}, SIX, {ev.RequestDeferred}),
    "contiguous reservations": (
        {"kv_cache_allocator": "contiguous", "max_model_len": 20, "num_blocks": 12},
        SIX, {ev.RequestDeferred},
    ),
    "text held back for a stop string": (
        {}, [("a", [1], {"stop": ["!!!!!!!!!!"]})], {ev.TextFlushed},
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
def test_fold_and_inspection_are_equal_after_every_phase(situation):
    options, requests, must_happen = SITUATIONS[situation]
    run = Followed(**options)
    for name, prompt, params in requests:
        run.add(name, prompt, **params)
        run.phases(2)
    run.phases()
    assert must_happen <= run.kinds()
    known = set()
    for event in run.events:  # each token has its text once, and before it is used
        if isinstance(event, ev.TokensNamed):
            assert known.isdisjoint(event.pieces)
            known |= event.pieces.keys()
        elif isinstance(event, ev.TokenSampled):
            assert event.token_id in known
    last = run.fold.history[-1]
    assert last.reason == "length" and len(last.text) == last.num_tokens - len(requests[-1][1])


def test_they_are_equal_when_requests_leave_fail_and_options_change():
    run = Followed(num_blocks=8)
    for name, prompt, params in SIX:
        run.add(name, prompt, **params)
    run.runner.draw = lambda sequence: (
        SamplingError("It has NaN.", sequence.seq_id)
        if sequence.seq_id == "r2.0" and sequence.num_output_tokens == 3
        else run.runner.sample(sequence)
    )
    for running, waiting in (("r0", "r5"), ("r1", "r4")):
        while run.engine.next_phase != "schedule" or len(run.fold.running) < 2:
            run.phases(1)
        for name in (running, waiting):
            run.engine.abort_request(name)
            run.compare()
        run.engine.set_option("max_num_seqs", 3)
        run.compare()
    run.phases()
    assert {ev.RequestAborted, ev.OptionChanged} <= run.kinds()
    assert run.fold.counters.aborted_requests == 5 and run.fold.counters.finished_requests == 1


def test_they_are_equal_when_a_real_model_explains_its_tokens_attention_and_grammar():
    model = load_model(EngineConfig(model="house", dtype="float32", attention_backend="torch"))
    run = FollowedRun(model, explain_tokens=True)
    run.engine.record_attention_mass(True, "plain.0")
    digits = StructuredOutputsParams(regex="[0-9]{3}")
    run.add("plain", [5, 6, 7], {"logprobs": 1, "prompt_logprobs": 1})
    run.add("digits", [5, 6, 7], {"structured_outputs": digits, "ignore_eos": False})
    run.add("beams", [5, 6, 7], {"beam_width": 2})
    run.finish()  # compares after every phase
    kinds = {type(event) for event in run.events}
    assert {ev.TokenExplained, ev.GrammarState, ev.AttentionMass, ev.TokenAttention} <= kinds


def test_they_are_equal_to_the_last_digit_on_a_real_clock():
    run = Followed(clock=MonotonicClock())
    run.add("a", [1, 2, 3])
    run.phases()


# ---- any requests at all ----

REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 8),  # half the tokens of its prompt
        st.sampled_from([{}, {"n": 2}, {"n": 2, "beam_width": 2}, {"n": 2, "stop_token_ids": [1]}]),
        st.integers(-1, 1),  # its priority
        st.integers(0, 7),  # phases until the next request
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, derandomize=True, database=None)
@given(REQUESTS, st.integers(12, 20), st.integers(1, 16), st.booleans())
def test_they_are_equal_for_any_requests_in_a_small_pool(requests, num_blocks, budget, caching):
    run = Followed(
        num_blocks, max_num_batched_tokens=budget, enable_prefix_caching=caching,
        scheduling_policy="priority",
    )  # fmt: skip
    for number, (length, params, priority, num_phases) in enumerate(requests):
        run.add(f"r{number}", [0, 1] * length, priority, **params)
        run.phases(num_phases)
    run.phases()
    assert run.fold.requests == {}


# ---- views that come late, and events that nobody folds ----


def test_a_view_that_starts_at_any_moment_has_the_same_state_at_the_end():
    run, late = Followed(num_blocks=8), []
    for name, prompt, params in SIX:
        run.add(name, prompt, **params)
    first = run.engine.inspect()
    before = msgspec.json.encode(first)
    while run.engine.has_unfinished_requests():
        late.append(Fold(run.engine.log_header(), run.engine.inspect()))
        run.engine.subscribe(late[-1].apply)
        run.phases(1)
    assert len(late) > 30 and all(view.state == run.fold.state for view in late)
    assert msgspec.json.encode(first) == before, "an inspection is a copy that no step changes"


def test_every_kind_of_event_is_folded_and_names_the_function_that_emits_it():
    assert set(ev.EVENT_KINDS) <= fold_module._APPLY.keys()
    for kind in ev.EVENT_KINDS:
        module_name, _, qualified = kind.rule.partition(":")
        target = import_module(module_name)
        for part in qualified.split("."):
            target = getattr(target, part)
        assert re.search(rf"\b{kind.__name__}\b", inspect.getsource(target)), kind
