"""Random histories with a second memory, whose loads take 0 to 20 steps.

After every phase, the fold equals the inspection and no invariant of either pool is broken. Every
wait ends, nothing is left at the end, and each output is that of the model alone.
"""

import pytest
from support.engine.random_histories import TIERED, run_tiered

from minivllm.events import types as ev


@pytest.mark.parametrize("flavour", TIERED)
def test_every_load_ends_and_no_token_changes(flavour: str):
    kinds = run_tiered(flavour, range(20))
    assert min(kinds[ev.KVStore], kinds[ev.KVLost], kinds[ev.KVLoad]) > 10, kinds
    assert kinds[ev.KVLoad] == kinds[ev.KVLoaded]


@pytest.mark.parametrize("flavour", TIERED)
def test_every_lease_and_load_ends_if_the_other_engine_dies_or_sends_damaged_bytes(flavour: str):
    held, loads = (run_tiered(flavour, range(8), f"kv_{role}") for role in ("producer", "consumer"))
    assert held[ev.KVLease] == held[ev.KVReleased]
    assert min(held["read"], held["expired"]) > 4, held
    assert loads[ev.KVLoad] == loads[ev.KVLoaded] > 20, loads


@pytest.mark.parametrize(("flavour", "seed"), [("small pools", 116), ("static batches", 26)])
def test_beams_let_an_older_request_in_that_they_have_passed_while_it_loaded(flavour, seed):
    """A beam waited for its sibling behind a request that did not fit. The beam was preempted for
    it, went to the front of the queue, and took the blocks again.
    """
    run_tiered(flavour, range(seed, seed + 1))


def test_beams_that_come_back_in_another_order_offer_their_candidates_once():
    """A preempted beam came back after its siblings, whose offers completed the search's step. Its
    own offer of that step then counted for its next token.
    """
    run_tiered("whole prompts", range(1229, 1230))
