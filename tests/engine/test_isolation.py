"""A model that raises for one sequence costs that request; the others get their very tokens, and
everything adds up.
"""

import pytest
import torch
from support.engine.engine_fakes import FakeRunner, WatchedEngine, expected_output

from minivllm.core.scheduler_output import BlockCopy, SchedulerOutput
from minivllm.engine.isolation import MAX_FAILED_IN_A_ROW
from minivllm.errors import EngineDeadError
from minivllm.events import types as ev
from minivllm.outputs import RequestOutput
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch

PROMPT = [7, 1, 2, 3, 4, 5, 6, 7, 8]


class BrokenRunner(FakeRunner):
    """Raises for the request "bad" with `after` tokens, before anything is written or, if `late`,
    when all is written.
    """

    after = 0
    late = False

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        sequences = [item.sequence for item in plan.scheduled]
        raises = any(
            one.request.request_id == "bad" and one.num_output_tokens >= self.after
            for one in sequences
        )
        if raises and not self.late:
            raise RuntimeError("a bug in /home/somebody/model.py")
        result = super().execute_model(plan, watch)
        if raises:
            raise RuntimeError("a bug in /home/somebody/model.py")
        return result


def broken_engine(late: bool = False, **options: object) -> WatchedEngine:
    watched = WatchedEngine(**options)
    watched.runner.__class__ = BrokenRunner
    watched.runner.late = late
    return watched


def run_by_phases(engine: WatchedEngine) -> dict[str, RequestOutput]:
    """Compares the fold with the engine after every phase."""
    for _ in range(3000):
        if not engine.engine.has_unfinished_requests():
            return engine.outputs
        engine.step_phase()
    raise AssertionError("still unfinished")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("when", [0, 3])
@pytest.mark.parametrize(
    ("others", "num_blocks"), [("ab", 14), ("ab", 100), ("", 100)], ids=["tight", "roomy", "alone"]
)
def test_the_request_that_the_model_raises_for_fails_and_the_others_get_their_tokens(
    late: bool, when: int, others: str, num_blocks: int
) -> None:
    engine = broken_engine(late, num_blocks=num_blocks)
    engine.runner.after = when
    engine.add("bad", [50, *PROMPT], max_tokens=12)
    for name in others:
        engine.add(name, [ord(name) % 90, *PROMPT], max_tokens=12)
    outputs = run_by_phases(engine)
    assert outputs["bad"].error == "The model failed on bad.0." and outputs["bad"].finished
    assert len(outputs["bad"].outputs[0].token_ids) == when
    for name in others:
        assert outputs[name].error is None
        assert engine.token_ids(name) == expected_output([ord(name) % 90, *PROMPT], 12)
    (aborted,) = engine.events_of(ev.RequestAborted)
    assert aborted.error == "The model failed on bad.0."
    assert engine.pool.num_free_blocks == num_blocks
    assert engine.engine._stepper.output_processor._outputs == {}
    engine.add("next", [50, *PROMPT], max_tokens=12)
    assert run_by_phases(engine)["next"].num_cached_tokens == 0, "what it wrote is not trusted"
    assert engine.token_ids("next") == expected_output([50, *PROMPT], 12)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("n", [1, 3])
def test_who_shares_blocks_that_the_failed_one_did_not_write_is_computed_anew(
    late: bool, n: int
) -> None:
    engine = broken_engine(late)
    engine.add("running", [3, *PROMPT], max_tokens=20)
    engine.step()
    shared = list(range(20, 28))  # two blocks
    engine.add("bad", [*shared, 98], max_tokens=8)
    engine.add("good", [*shared, 1, 2, 3, 4, 5], max_tokens=8, n=n)
    engine.add("after", [*shared, 1, 2, 3, 4, 6], max_tokens=8)  # finds blocks of both
    engine.add("other", [5, *PROMPT], max_tokens=8)
    outputs = run_by_phases(engine)
    assert outputs["bad"].error == "The model failed on bad.0."
    assert engine.token_ids("running") == expected_output([3, *PROMPT], 20)
    for name, last in (("good", 5), ("after", 6)):
        assert outputs[name].error is None
        for i, one in enumerate(outputs[name].outputs):
            assert one.token_ids == expected_output([*shared, 1, 2, 3, 4, last], 8, index=i)
    assert engine.token_ids("other") == expected_output([5, *PROMPT], 8)
    preempted = engine.events_of(ev.RequestPreempted)
    assert {event.seq_id for event in preempted} == {f"good.{i}" for i in range(n)} | {"after.0"}
    assert {(event.victim_of, event.need) for event in preempted} == {("bad.0", 0)}
    assert engine.pool.num_free_blocks == 100


@pytest.mark.parametrize("late", [False, True])
def test_samples_and_beams_copy_their_blocks_once_whoever_fails_beside_them(late: bool) -> None:
    for poisoned_step in range(1, 7):
        engine, alone = broken_engine(late), WatchedEngine()
        for one in (engine, alone):
            one.add("samples", PROMPT, max_tokens=6, n=3)
            one.add("beams", [4, *PROMPT], max_tokens=6, n=3, use_beam_search=True)
        for step in range(1, 30):
            if step == poisoned_step:
                engine.add("bad", [98, 98])
            engine.step()
        assert engine.outputs["bad"].error
        expected = alone.run()
        for name in ("samples", "beams"):
            texts = [one.token_ids for one in engine.outputs[name].outputs]
            assert texts == [one.token_ids for one in expected[name].outputs]
        assert engine.pool.num_free_blocks == 100


def test_a_step_too_large_for_the_memory_is_run_in_pieces_and_nobody_fails() -> None:
    """Mass is measured in each piece; a trace of a kernel waits for a whole step."""
    watches: list[tuple[int, Watch]] = []

    class SmallRunner(FakeRunner):
        def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
            watches.append((len(plan.scheduled), watch))
            if len(plan.scheduled) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory")
            super().execute_model(plan, watch)
            return StepResult(
                None, attention_mass=[[1.0] for _ in plan.scheduled if watch.attention_mass]
            )

    engine = WatchedEngine()
    for name in ("a", "b"):
        engine.add(name, PROMPT)
    engine.step()
    engine.runner.__class__ = SmallRunner
    engine.engine.record_attention_mass(True)
    engine.engine.trace_kernel("b.0")
    engine.step()
    engine.step()
    assert watches == 2 * [(2, Watch((1,), True)), (1, Watch((), True)), (1, Watch((), True))]
    assert [event.seq_id for event in engine.events_of(ev.AttentionMass)] == 2 * ["a.0", "b.0"]
    engine.engine.record_attention_mass(False)
    engine.run()
    assert watches[-1] == (1, Watch())
    assert engine.outputs["a"].error is engine.outputs["b"].error is None
    assert engine.token_ids("a") == engine.token_ids("b") == expected_output(PROMPT, 8)


@pytest.mark.parametrize("params", [{"n": 3}, {"n": 3, "use_beam_search": True}])
def test_samples_and_beams_that_are_alone_fail_together(params: dict) -> None:
    engine = broken_engine()
    engine.runner.after = 2
    engine.add("bad", PROMPT, max_tokens=12, **params)
    assert run_by_phases(engine)["bad"].error.startswith("The model failed on bad.")
    assert engine.pool.num_free_blocks == 100


def test_a_model_that_fails_for_everybody_ends_the_engine_of_what_was_raised_first() -> None:
    engine = WatchedEngine()
    attempts = iter(range(100))

    def execute(*args: object) -> None:
        raise RuntimeError(f"attempt {next(attempts)}")

    engine.runner.execute_model = execute
    for i in range(MAX_FAILED_IN_A_ROW):
        engine.add(f"r{i}", PROMPT)
        assert run_by_phases(engine)[f"r{i}"].error == f"The model failed on r{i}.0."
    assert next(attempts) == 2 * MAX_FAILED_IN_A_ROW
    engine.add("last", PROMPT)
    with pytest.raises(RuntimeError, match=f"attempt {2 * MAX_FAILED_IN_A_ROW + 1}"):
        engine.step()
    with pytest.raises(EngineDeadError, match=f"attempt {2 * MAX_FAILED_IN_A_ROW + 1}"):
        engine.engine.step()
    engine.compare()


@pytest.mark.parametrize("count", [MAX_FAILED_IN_A_ROW, MAX_FAILED_IN_A_ROW + 1])
def test_those_who_fail_together_count_as_if_they_failed_one_after_another(count: int) -> None:
    engine = WatchedEngine()
    whole, engine.runner.execute_model = engine.runner.execute_model, lambda *args: 1 // 0
    for i in range(count):
        engine.add(f"r{i}", [i, *PROMPT])
    if count > MAX_FAILED_IN_A_ROW:
        with pytest.raises(ZeroDivisionError):
            engine.step()
        engine.compare()
    else:
        engine.step()
        assert all(engine.outputs[f"r{i}"].error for i in range(count))
        engine.runner.execute_model = whole
        engine.add("next", PROMPT)
        engine.run()
        assert engine.token_ids("next") == expected_output(PROMPT, 8)
        assert engine.pool.num_free_blocks == 100


def test_a_success_between_them_shows_that_the_model_works() -> None:
    engine = WatchedEngine()
    engine.runner.__class__ = BrokenRunner
    for i in range(3 * MAX_FAILED_IN_A_ROW):
        engine.add("bad", [98, 98])
        assert engine.run()["bad"].error
        if i % MAX_FAILED_IN_A_ROW == 1:
            engine.add("good", PROMPT)
            engine.run()
            assert engine.token_ids("good") == expected_output(PROMPT, 8)


def test_a_device_that_has_stopped_working_ends_the_engine_at_once() -> None:
    engine = broken_engine()
    engine.runner.device_lost = True
    engine.add("good", PROMPT)
    engine.step()
    engine.add("bad", [98, 98])
    with pytest.raises(RuntimeError, match="a bug"):
        engine.step()
    engine.compare()
    with pytest.raises(EngineDeadError):
        engine.engine.step()


def test_a_broken_rule_of_the_engine_is_nobodys_failure() -> None:
    engine = WatchedEngine()
    engine.add("a", PROMPT, max_tokens=20)
    engine.step()
    engine.add("b", [1, *PROMPT])
    # a stale block: the fake's own check raises AssertionError
    engine.runner.kv[engine.table("a")[0] * 4] = (0,)
    with pytest.raises(AssertionError, match="reads position 0"):
        engine.engine.step()


def test_a_step_that_copied_from_a_block_taken_anew_is_not_tried_again() -> None:
    """Then what was copied from may be gone, and nobody knows if the copy was made."""
    engine = broken_engine()
    engine.add("a", PROMPT)
    engine.add("bad", [98, 98])
    engine.engine.step_phase()
    plan = engine.engine._stepper.last_plan
    plan.copies.append(BlockCopy(src=engine.table("a")[0], dst=90))
    with pytest.raises(RuntimeError, match="a bug"):
        engine.engine.step_phase()
