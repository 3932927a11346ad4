"""A failure in a step with drafts costs only the request that failed."""

from random import Random

import pytest
from engine.test_isolation import broken_engine
from support.engine.engine_fakes import WatchedEngine, expected_output, prompt
from support.engine.random_histories import SeerWithErrors

DRAFTS = {"method": "draft_model", "model": "fake", "num_speculative_tokens": 4}


def run(fails: str, **options: object) -> WatchedEngine:
    """The model, or the sampler, fails on the sequence `bad.0` once it has written five tokens."""
    engine = broken_engine(fails, after=5, vocab_size=2, **options)
    for name, first in (("a", 0), ("bad", 30), ("b", 60)):
        engine.add(name, prompt(6, first), max_tokens=20)
    engine.run()
    return engine


@pytest.mark.parametrize("fails", ["early", "sampling"])
def test_a_failure_on_one_sequence_leaves_the_drafts_of_the_others(fails: str) -> None:
    drafted = run(fails, proposer=SeerWithErrors(Random(5), 0.2), speculative_config=DRAFTS)
    assert drafted.fold.counters.spec_decode_num_accepted_tokens > 5
    for name, first in (("a", 0), ("b", 60)):
        assert drafted.token_ids(name) == expected_output(prompt(6, first), 20, vocab_size=2)
    failed = drafted.outputs["bad"]
    assert failed.error is not None and failed.outputs[0].finish_reason == "abort"
    tokens = expected_output(prompt(6, 30), 20, vocab_size=2)
    assert failed.outputs[0].token_ids == tokens[: len(failed.outputs[0].token_ids)]
    if fails == "sampling":
        plain = run(fails).token_ids("bad")
        assert failed.outputs[0].token_ids == plain, "it fails at the same token as without drafts"
    assert drafted.pool.num_free_blocks == len(drafted.pool.blocks)
