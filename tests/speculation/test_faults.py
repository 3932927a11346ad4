"""A failure in a step with drafts costs only the request that failed."""

from random import Random

from support.engine.engine_fakes import FakeRunner, WatchedEngine, expected_output, prompt
from support.engine.random_histories import SeerWithErrors

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import SamplingError
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch

DRAFTS = {"method": "draft_model", "model": "fake", "num_speculative_tokens": 4}


class FaultyRunner(FakeRunner):
    """Fails on the sequence `bad.0` once it has more than ten tokens."""

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        if self.in_model and any(_is_bad(item.sequence) for item in plan.scheduled):
            raise RuntimeError("a bug of the model")
        return super().execute_model(plan, watch)

    def sample_tokens(self, sequences, logits) -> list[SampledToken | SamplingError]:
        return [
            SamplingError("It has NaN.", one.seq_id)
            if not self.in_model and _is_bad(one)
            else self._sample(one)
            for one in sequences
        ]


def _is_bad(sequence) -> bool:
    return sequence.seq_id == "bad.0" and sequence.num_tokens > 10


def run(in_model: bool, **options: object) -> WatchedEngine:
    engine = WatchedEngine(**options)
    engine.runner.__class__ = FaultyRunner
    engine.runner.in_model = in_model
    for name, first in (("a", 0), ("bad", 30), ("b", 60)):
        engine.add(name, prompt(6, first), max_tokens=20)
    engine.run()
    return engine


def check(in_model: bool) -> None:
    drafted = run(
        in_model,
        vocab_size=2,
        proposer=SeerWithErrors(Random(5), 0.2),
        speculative_config=DRAFTS,
    )
    assert drafted.fold.counters.spec_decode_num_accepted_tokens > 5
    for name, first in (("a", 0), ("b", 60)):
        assert drafted.token_ids(name) == expected_output(prompt(6, first), 20, vocab_size=2)
    failed = drafted.outputs["bad"]
    assert failed.error is not None and failed.outputs[0].finish_reason == "abort"
    tokens = expected_output(prompt(6, 30), 20, vocab_size=2)
    assert failed.outputs[0].token_ids == tokens[: len(failed.outputs[0].token_ids)]
    if not in_model:
        plain = run(in_model, vocab_size=2)
        assert failed.outputs[0].token_ids == plain.token_ids("bad"), "up to the same token"
    assert drafted.pool.num_free_blocks == len(drafted.pool.blocks)


def test_a_model_that_fails_on_one_sequence_leaves_the_drafts_of_the_others() -> None:
    check(in_model=True)


def test_a_sampler_that_fails_in_a_row_after_drafts_fails_at_the_same_token_as_without() -> None:
    check(in_model=False)
