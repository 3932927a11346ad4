"""Random histories under pressure: `core_reference` must predict every event.

Results of each flavour are counted, so that no flavour stops testing anything.
"""

from collections import Counter

import pytest
from support.engine.random_histories import FLAVOURS, History

from minivllm.events import types as ev

NUM_HISTORIES = 12
"""Per flavour."""


def run(flavour: str, seeds: range) -> Counter:
    return sum((History(flavour, seed).run() for seed in seeds), Counter())


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_event_of_a_random_history_is_the_one_that_the_reference_predicts(flavour):
    kinds = run(flavour, range(NUM_HISTORIES))
    assert min(kinds[ev.RequestFinished], kinds[ev.RequestDeferred]) > 100, kinds
    if flavour not in ("baselines", "small budgets", "drafts under the baselines"):
        assert min(kinds[ev.RequestPreempted], kinds[ev.RequestResumed]) > 5, kinds
    if "drafts" in flavour:
        assert min(kinds[ev.DraftProposed], kinds[ev.DraftVerified]) > 100, kinds
    if "samples" in flavour:
        assert min(kinds[ev.BlockCopied], kinds[ev.RequestForked], kinds[ev.BeamPruned]) > 40
    if flavour not in ("baselines", "no cache", "drafts under the baselines"):
        assert min(kinds[ev.BlockHit], kinds[ev.BlockEvicted]) > 15, kinds


@pytest.mark.slow
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_reference_predicts_a_thousand_more_histories_of_each_flavour(flavour):
    run(flavour, range(NUM_HISTORIES, 1000 + NUM_HISTORIES))
