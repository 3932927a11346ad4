"""SmolLM2 keeps the promise of `tests/test_tokens_are_those_of_transformers.py`, too.

Its tests run here on another model, with fewer prompts.
"""

import pytest
from support.engine.identity_prompts import prompts_for
from support.engine.identity_runs import peer_of
from test_tokens_are_those_of_transformers import (  # noqa: F401
    expected,
    test_beams_are_those_of_transformers_in_order_under_every_schedule,
    test_drafts_change_no_token,
    test_four_samples_are_the_same_alone_and_beside_many_other_requests,
    test_greedy_tokens_are_those_of_transformers_under_every_schedule,
    test_greedy_tokens_are_those_of_transformers_with_the_other_linear_backend,
    test_seeded_samples_are_the_same_under_every_schedule,
)


@pytest.fixture(scope="module")
def model(smollm2):
    return smollm2


@pytest.fixture(scope="module")
def peer(smollm2):
    return peer_of("smollm2")


@pytest.fixture(scope="module")
def prompts(smollm2) -> list[list[int]]:
    *short, long, branched = prompts_for(smollm2.tokenizer)
    return [*short[:9], *short[-5:], long[:200], [*long[:160], *branched[640:]]]
