"""A failure in a step with drafts costs only the request that failed."""

from random import Random

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_output, prompt
from support.engine.random_histories import SeerWithErrors

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import SamplingError
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import Watch

DRAFTS = {"method": "draft_model", "model": "fake", "num_speculative_tokens": 4}


def is_bad(sequence: Sequence) -> bool:
    return sequence.seq_id == "bad.0" and sequence.num_tokens > 10


def run(in_model: bool, **options: object) -> WatchedEngine:
    """The model, or the sampler, fails on the sequence `bad.0` once it has more than ten tokens."""
    engine = WatchedEngine(vocab_size=2, **options)

    def fail(plan: SchedulerOutput, watch: Watch) -> None:
        if any(is_bad(item.sequence) for item in plan.scheduled):
            raise RuntimeError("a bug of the model")

    def draw(sequence: Sequence) -> SampledToken | SamplingError:
        if is_bad(sequence):
            return SamplingError("It has NaN.", sequence.seq_id)
        return engine.runner.sample(sequence)

    if in_model:
        engine.runner.before = fail
    else:
        engine.runner.draw = draw
    for name, first in (("a", 0), ("bad", 30), ("b", 60)):
        engine.add(name, prompt(6, first), max_tokens=20)
    engine.run()
    return engine


@pytest.mark.parametrize("in_model", [True, False], ids=["the model", "the sampler"])
def test_a_failure_on_one_sequence_leaves_the_drafts_of_the_others(in_model: bool) -> None:
    drafted = run(in_model, proposer=SeerWithErrors(Random(5), 0.2), speculative_config=DRAFTS)
    assert drafted.fold.counters.spec_decode_num_accepted_tokens > 5
    for name, first in (("a", 0), ("b", 60)):
        assert drafted.token_ids(name) == expected_output(prompt(6, first), 20, vocab_size=2)
    failed = drafted.outputs["bad"]
    assert failed.error is not None and failed.outputs[0].finish_reason == "abort"
    tokens = expected_output(prompt(6, 30), 20, vocab_size=2)
    assert failed.outputs[0].token_ids == tokens[: len(failed.outputs[0].token_ids)]
    if not in_model:
        plain = run(in_model).token_ids("bad")
        assert failed.outputs[0].token_ids == plain, "it fails at the same token as without drafts"
    assert drafted.pool.num_free_blocks == len(drafted.pool.blocks)
