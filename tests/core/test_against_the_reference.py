"""Random histories under pressure, each event of which `core_reference` must have predicted.

What came of each flavour is counted, so that none turns into a test of nothing.
"""

from collections import Counter

import pytest
from support.engine.random_histories import FLAVOURS, History

from minivllm.events import types as ev

NUM_HISTORIES = 40
"""Of each flavour."""


def run(flavour: str, seeds: range) -> Counter:
    return sum((History(flavour, seed).run() for seed in seeds), Counter())


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_event_of_a_random_history_is_the_one_that_the_reference_predicts(flavour):
    kinds = run(flavour, range(NUM_HISTORIES))
    assert min(kinds[ev.RequestFinished], kinds[ev.RequestDeferred]) > 400, kinds
    if flavour not in ("baselines", "small budgets"):
        assert min(kinds[ev.RequestPreempted], kinds[ev.RequestResumed]) > 40, kinds
    if "samples" in flavour:
        assert min(kinds[ev.BlockCopied], kinds[ev.RequestForked], kinds[ev.BeamPruned]) > 150, (
            kinds
        )
    if flavour not in ("baselines", "no cache"):
        assert min(kinds[ev.BlockHit], kinds[ev.BlockEvicted]) > 100, kinds


@pytest.mark.slow
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_thousand_more_histories_of_each_flavour_hold_no_surprise(flavour):
    run(flavour, range(NUM_HISTORIES, 1000 + NUM_HISTORIES))
