"""An error in one request ends only that request; the others get the same tokens."""

from unittest.mock import Mock

import pytest
import torch
from support.engine.engine_fakes import WatchedEngine, expected_output, run_to_the_end

from minivllm.config import EngineConfig
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy, SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.engine.runner import MAX_FAILED_IN_A_ROW
from minivllm.errors import EngineDeadError, InvariantError, SamplingError
from minivllm.events import types as ev
from minivllm.outputs import Logprob, PromptTokenLogprob, RequestOutput, SampledToken
from minivllm.runtime.loader import load_model
from minivllm.runtime.step_result import StepResult, TokenWatch, Watch
from minivllm.sampling_params import SamplingParams

PROMPT = [7, 1, 2, 3, 4, 5, 6, 7, 8]


def broken_engine(fails: str = "early", after: int = 0, **options: object) -> WatchedEngine:
    """An engine whose model fails for the request "bad" once it has `after` tokens.

    "early" raises before anything is written, "late" after all is written, and "sampling" returns
    no token.
    """
    engine = WatchedEngine(**options)

    def is_bad(sequence: Sequence) -> bool:
        is_named = sequence.request.request_id.startswith("bad")
        return is_named and sequence.num_output_tokens >= after

    def fail(plan: SchedulerOutput, watch: Watch) -> None:
        if any(is_bad(item.sequence) for item in plan.scheduled):
            raise RuntimeError("a bug in /home/somebody/model.py")

    def draw(sequence: Sequence) -> SampledToken | SamplingError:
        if is_bad(sequence):
            return SamplingError("bad.0 has NaN.", sequence.seq_id)
        return engine.runner.sample(sequence)

    hooks = {"early": ("before", fail), "late": ("after", fail), "sampling": ("draw", draw)}
    setattr(engine.runner, *hooks[fails])
    return engine


@pytest.mark.parametrize("fails", ["early", "late", "sampling"])
@pytest.mark.parametrize("when", [0, 3])
@pytest.mark.parametrize(
    ("others", "num_blocks"), [("ab", 14), ("ab", 100), ("", 100)], ids=["tight", "roomy", "alone"]
)
def test_one_request_fails_and_the_others_get_their_tokens(fails, when, others, num_blocks):
    engine = broken_engine(fails, when, num_blocks=num_blocks)
    engine.add("bad", [50, *PROMPT], max_tokens=12)
    for name in others:
        engine.add(name, [ord(name) % 90, *PROMPT], max_tokens=12)
    outputs = engine.run()
    sentence = "bad.0 has NaN." if fails == "sampling" else "The model failed on bad.0."
    assert outputs["bad"].error == sentence and outputs["bad"].finished
    assert outputs["bad"].outputs[0].finish_reason == "abort"
    assert len(outputs["bad"].outputs[0].token_ids) == when
    for name in others:
        assert outputs[name].error is None
        assert engine.token_ids(name) == expected_output([ord(name) % 90, *PROMPT], 12)
    (aborted,) = engine.events_of(ev.RequestAborted)
    assert aborted.error == sentence
    assert engine.pool.num_free_blocks == num_blocks
    assert engine.engine.core.output_processor._outputs == {}
    engine.add("next", [50, *PROMPT], max_tokens=12)
    assert engine.run()["next"].num_cached_tokens == 0, "its blocks are not trusted"
    assert engine.token_ids("next") == expected_output([50, *PROMPT], 12)


@pytest.mark.parametrize("fails", ["early", "late"])
@pytest.mark.parametrize("n", [1, 3])
def test_sequences_that_share_unwritten_blocks_of_a_failed_request_are_recomputed(fails, n):
    engine = broken_engine(fails)
    engine.add("running", [3, *PROMPT], max_tokens=20)
    engine.step()
    shared = list(range(20, 28))  # two blocks
    engine.add("bad", [*shared, 98], max_tokens=8)
    engine.add("good", [*shared, 1, 2, 3, 4, 5], max_tokens=8, n=n)
    engine.add("after", [*shared, 1, 2, 3, 4, 6], max_tokens=8)  # hits blocks of both
    engine.add("bad too", [30, *shared, 98], max_tokens=8)
    engine.add("also", [30, *shared, 1], max_tokens=8)
    engine.add("other", [5, *PROMPT], max_tokens=8)
    outputs = engine.run()
    assert outputs["bad"].error == "The model failed on bad.0."
    assert engine.token_ids("also") == expected_output([30, *shared, 1], 8)
    assert engine.token_ids("running") == expected_output([3, *PROMPT], 20)
    for name, last in (("good", 5), ("after", 6)):
        assert outputs[name].error is None
        for i, sample in enumerate(outputs[name].outputs):
            assert sample.token_ids == expected_output([*shared, 1, 2, 3, 4, last], 8, index=i)
    assert engine.token_ids("other") == expected_output([5, *PROMPT], 8)
    preempted = engine.events_of(ev.RequestPreempted)
    names = [*(f"good.{i}" for i in range(n)), "after.0", "also.0"]
    blamed = dict.fromkeys(names[:-1], "bad.0") | {"also.0": "bad too.0"}
    assert {event.seq_id: event.victim_of for event in preempted} == blamed
    assert {event.need for event in preempted} == {0}
    resumed = [event.seq_id for event in engine.events_of(ev.RequestResumed)]
    assert resumed == names, "in the order of the plan"
    assert engine.pool.num_free_blocks == 100


def test_a_wholly_cached_prompt_writes_nothing_so_its_failure_strands_nobody():
    engine = broken_engine()
    engine.add("first", PROMPT[:8])
    engine.run()
    engine.add("bad", PROMPT[:8])
    engine.add("good", PROMPT[:8])
    outputs = engine.run()
    assert outputs["bad"].error and outputs["good"].error is None
    assert engine.events_of(ev.RequestPreempted) == []
    assert engine.token_ids("good") == expected_output(PROMPT[:8], 8)


@pytest.mark.parametrize("fails", ["early", "late"])
def test_copies_are_made_although_the_first_sequence_fails(fails):
    for after in range(1, 7):
        engine = broken_engine(fails, after)
        engine.add("bad", [98, 98])  # first in every plan
        engine.add("samples", PROMPT, max_tokens=6, n=3)
        outputs = engine.run()
        assert outputs["bad"].error
        for i, sample in enumerate(outputs["samples"].outputs):
            assert sample.token_ids == expected_output(PROMPT, 6, index=i)


def test_a_step_too_large_for_the_memory_is_split_and_no_request_fails():
    """Attention mass is measured in each part; a kernel trace waits for a whole step."""
    watches: list[tuple[int, Watch]] = []

    def run_out_of_memory(plan: SchedulerOutput, watch: Watch) -> None:
        watches.append((len(plan.scheduled), watch))
        if len(plan.scheduled) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")

    engine = WatchedEngine()
    for name in ("a", "b"):
        engine.add(name, PROMPT)
    engine.step()
    engine.runner.before = run_out_of_memory
    engine.runner.after = lambda plan, watch: StepResult(
        plan, None, attention_mass=[[1.0] for _ in plan.scheduled if watch.attention_mass]
    )
    engine.engine.record_attention_mass(True)
    engine.engine.trace_kernel("b.0")
    engine.step()
    engine.step()
    whole, piece = Watch((1,), True, TokenWatch(0)), Watch((), True)
    assert watches == 2 * [(2, whole), (1, piece), (1, piece)]
    assert [event.seq_id for event in engine.events_of(ev.AttentionMass)] == 2 * ["a.0", "b.0"]
    engine.engine.record_attention_mass(False)
    engine.run()
    assert watches[-1] == (1, Watch())
    assert engine.outputs["a"].error is engine.outputs["b"].error is None
    assert engine.token_ids("a") == engine.token_ids("b") == expected_output(PROMPT, 8)


# ---- a model that is broken for all, and not for one request ----


def test_a_model_that_fails_for_every_request_ends_the_engine_with_the_first_error():
    engine = WatchedEngine()
    engine.runner.before = Mock(side_effect=[RuntimeError(f"attempt {i}") for i in range(100)])
    for i in range(MAX_FAILED_IN_A_ROW):
        engine.add(f"r{i}", PROMPT)
        assert engine.run()[f"r{i}"].error == f"The model failed on r{i}.0."
    assert engine.runner.before.call_count == 2 * MAX_FAILED_IN_A_ROW
    engine.add("last", PROMPT)
    with pytest.raises(RuntimeError, match=f"attempt {2 * MAX_FAILED_IN_A_ROW}"):
        engine.step()
    with pytest.raises(EngineDeadError, match=f"attempt {2 * MAX_FAILED_IN_A_ROW}"):
        engine.engine.step()
    engine.compare()


def test_many_failures_in_a_step_do_not_end_an_engine_that_still_serves_somebody():
    engine = broken_engine()
    for i in range(MAX_FAILED_IN_A_ROW + 1):
        engine.add(f"bad{i}", [i, *PROMPT])
    engine.add("good", PROMPT)
    engine.run()
    assert all(engine.outputs[f"bad{i}"].error for i in range(MAX_FAILED_IN_A_ROW + 1))
    assert engine.token_ids("good") == expected_output(PROMPT, 8)


def test_a_success_between_failures_shows_that_the_model_works():
    engine = broken_engine()
    for i in range(3 * MAX_FAILED_IN_A_ROW):
        engine.add("bad", [98, 98])
        assert engine.run()["bad"].error
        if i % MAX_FAILED_IN_A_ROW == 1:
            engine.add("good", PROMPT)
            engine.run()
            assert engine.token_ids("good") == expected_output(PROMPT, 8)


def test_a_device_that_has_stopped_working_ends_the_engine_at_once():
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


@pytest.mark.parametrize("earlier", [[], [RuntimeError("in the whole step")]])
def test_an_invariant_that_the_runner_finds_broken_is_not_blamed_on_a_request(earlier):
    engine = WatchedEngine()
    engine.add("a", PROMPT)
    broken = InvariantError("two sequences write one slot")
    engine.runner.before = Mock(side_effect=[*earlier, broken])
    with pytest.raises(InvariantError, match="one slot"):
        engine.engine.step()


def test_a_request_that_fails_in_the_middle_of_its_prompt_gets_an_output():
    engine = WatchedEngine(max_num_batched_tokens=4)
    no_text = PromptTokenLogprob("bad.0", 1, {5000: Logprob(-1.0, 1)})
    engine.runner.after = lambda plan, watch: StepResult(plan, None, prompt_logprobs=[no_text])
    engine.add("bad", PROMPT, prompt_logprobs=0)
    (output,) = engine.step()
    assert output.finished and "could not be turned into text" in output.error
    assert engine.engine.core.output_processor._outputs == {}


def test_a_step_with_copies_and_a_victim_is_repeated_without_making_the_copies_again():
    """The victim's block is a source: its new owner may write into it, so a copy is made once."""
    engine = broken_engine()
    engine.add("a", PROMPT)
    engine.add("bad", [98, 98])
    engine.engine.step_phase()
    plan, made = engine.engine.core.last_plan, []
    plan.copies.append(BlockCopy(src=engine.table("a")[0], dst=90))
    plan.preempted.append(plan.scheduled[0].sequence)
    engine.engine.core.runner.copy_blocks = made.append
    result = engine.engine.core.execute(plan)
    assert [request.request_id for request, _ in result.errors] == ["bad"]
    assert made == [plan.copies]


# ---- with a real model ----


def run(engine: LLMEngine, names: dict[str, int], **params: object) -> dict[str, RequestOutput]:
    sampling = SamplingParams(seed=5, max_tokens=8, ignore_eos=True, **params)
    for name, first in names.items():
        engine.add_request(name, {"prompt_token_ids": [first, *range(10, 30)]}, sampling)
    return run_to_the_end(engine)


@pytest.mark.parametrize(("bad", "temperature"), [(torch.nan, 0.0), (torch.inf, 1.0)])
def test_nan_keys_and_values_fail_only_their_own_request_also_after_it_ended(bad, temperature):
    config = EngineConfig(
        model="tiny-random", dtype="float32", num_gpu_blocks_override=24, block_size=8,
        max_num_seqs=4, max_model_len=64, check_invariants=True,
    )  # fmt: skip
    model = load_model(config)
    alone = run(LLMEngine.from_model(config, model), {"a": 3, "b": 4}, temperature=temperature)
    engine = LLMEngine.from_model(config, model)
    sick = {"prompt_token_ids": [5, *range(10, 30)]}
    engine.add_request("sick", sick, SamplingParams(max_tokens=40, ignore_eos=True))
    engine.step()
    table = engine.inspect().sequences["sick.0"].block_table
    for cache in engine.core.runner.plain._attention.kv_caches:
        cache[table[0], :, cache.shape[2] // 2 :] = bad  # values come after keys
    mixed = run(engine, {"a": 3, "b": 4}, temperature=temperature)
    assert "sick.0" in mixed["sick"].error and "NaN" in mixed["sick"].error
    # Its blocks are reused by others, and by the same prompt.
    later = run(engine, {"a": 3, "sick": 5, "c": 6, "b": 4}, temperature=temperature)
    assert [output.error for output in later.values()] == [None] * 4
    for found in (mixed, later):
        assert [found[name].outputs for name in "ab"] == [alone[name].outputs for name in "ab"]
    assert len(engine.inspect().free_queue) == 24
