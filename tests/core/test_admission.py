"""Static batching and the batch delay change when a token comes, never which token."""

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_output, fake_engine

from minivllm.clock import SimulatedClock
from minivllm.errors import ConfigError
from minivllm.events import types as ev
from minivllm.sampling_params import SamplingParams


def admissions(engine: WatchedEngine) -> list[tuple[int, str]]:
    return [(event.step, event.seq_id) for event in engine.events_of(ev.RequestAdmitted)]


def deferred(engine: WatchedEngine, seq_id: str) -> tuple | None:
    return engine.fold.sequences[seq_id].deferred


def all_tokens_are_right(engine: WatchedEngine, prompts: dict[str, tuple[list[int], int]]) -> bool:
    engine.run(max_steps=500)
    return all(engine.token_ids(name) == expected_output(*asked) for name, asked in prompts.items())


class TestStatic:
    def test_the_next_batch_is_admitted_when_the_slowest_member_has_ended(self):
        engine = WatchedEngine(batching="static", max_num_seqs=3)
        prompts = {"a": ([1], 2), "b": ([2], 6), "c": ([3], 1), "d": ([4], 1)}
        for name, (prompt, max_tokens) in prompts.items():
            engine.add(name, prompt, max_tokens=max_tokens)
            if name == "b":
                engine.step()
        engine.step()
        assert deferred(engine, "c.0") == ("static_batch", 2, 0), "there is room"
        assert all_tokens_are_right(engine, prompts)
        assert admissions(engine) == [(1, "a.0"), (1, "b.0"), (7, "c.0"), (7, "d.0")]

    def test_a_preempted_member_comes_back_into_its_own_batch(self):
        engine = WatchedEngine(batching="static", num_blocks=6, enable_prefix_caching=False)
        prompts = {"a": ([1] * 7, 12), "b": ([2] * 7, 9), "c": ([3] * 3, 2)}
        for name, (prompt, max_tokens) in prompts.items():
            engine.add(name, prompt, max_tokens=max_tokens)
        for _ in range(7):
            engine.step()
        assert [event.seq_id for event in engine.events_of(ev.RequestPreempted)] == ["b.0"]
        engine.add("late", [4], max_tokens=1)
        assert all_tokens_are_right(engine, prompts)
        assert engine.events_of(ev.RequestResumed)
        assert admissions(engine)[-1][1] == "late.0"

    def test_a_batch_that_cannot_make_progress_admits_others(self):
        engine = WatchedEngine(
            batching="static", scheduling_policy="priority", enable_prefix_caching=False
        )
        engine.add("beams", [2, 3, 4, 5, 6], max_tokens=4, n=2, use_beam_search=True, priority=5)
        engine.step()
        first, second = engine.scheduler.requests["beams"].sequences
        engine.scheduler.requeue(second, first)
        engine.add("urgent", [9] * 4, max_tokens=2, priority=0)
        engine.step()
        # The first beam had a token to compute.
        assert deferred(engine, "urgent.0") == ("static_batch", 1, 0)
        engine.step()
        assert admissions(engine)[-1] == (3, "urgent.0")
        assert [event.seq_id for event in engine.events_of(ev.RequestPreempted)] == [second.seq_id]
        engine.run()


class TestBatchDelay:
    """The clock of these engines shows 0.01 s times the steps taken."""

    def test_a_request_has_its_arrival_time_without_a_watcher(self):
        engine = fake_engine(clock=(clock := SimulatedClock()))
        clock.advance_to(5.0)
        engine.add_request("a", {"prompt_token_ids": [1, 2, 3]}, SamplingParams())
        assert engine.core.scheduler.requests["a"].arrival_time == 5.0

    def test_the_first_request_waits_until_the_delay_is_over(self):
        engine = WatchedEngine(batch_delay=0.03, batch_size=3)
        engine.add("a", [1], max_tokens=2)
        engine.step()
        assert deferred(engine, "a.0") == ("batch_delay", 3, 1)
        assert engine.fold.scheduled == []
        assert all_tokens_are_right(engine, {"a": ([1], 2)})
        assert admissions(engine) == [(4, "a.0")]

    @pytest.mark.parametrize("options", [{"batch_size": 2}, {"max_num_seqs": 2}], ids=str)
    def test_a_full_batch_ends_the_wait_and_is_max_num_seqs_by_default(self, options):
        engine = WatchedEngine(batch_delay=1.0, **options)
        engine.add("a", [1], max_tokens=2)
        engine.step()
        assert deferred(engine, "a.0") == ("batch_delay", 2, 1)
        engine.add("b", [2], max_tokens=2)
        engine.run()
        assert admissions(engine) == [(2, "a.0"), (2, "b.0")]


@pytest.mark.parametrize(
    "length, plan, why",
    [(12, [20, 1], ("token_budget", 12, 11)), (11, [20, 1, 11], None)],
    ids=["one token too many", "just fits"],
)
def test_without_chunking_a_prompt_runs_in_one_step_or_not_at_all(length, plan, why):
    engine = WatchedEngine(
        enable_chunked_prefill=False, max_num_batched_tokens=32, max_model_len=32
    )
    # The cached part of the second prompt does not count.
    for name, prompt in (("a", [1] * 20), ("a again", [1] * 20), ("b", [2] * length)):
        engine.add(name, prompt, max_tokens=3)
    engine.step()
    assert [item.num_tokens for item in engine.fold.scheduled] == plan
    assert deferred(engine, "b.0") == why
    engine.run()


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"batching": "dynamic"}, "batching must be one of continuous, static, sequential"),
        ({"batch_delay": -1.0}, "batch_delay must be a finite number"),
        ({"batch_size": 4}, "batch_size has no effect without batch_delay"),
        ({"batch_delay": 1.0, "batch_size": 0}, "batch_size must be a whole number"),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 31, "max_model_len": 32},
            "raise max_num_batched_tokens",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        WatchedEngine(**options)
