"""The request ledger against the fold, in random histories of the engine."""

import pytest
from support.engine.engine_fakes import WatchedEngine
from support.engine.random_histories import FLAVOURS, History

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.ledger import RequestLedger

PHASES = {"WAITING": {"queued"}, "PREEMPTED": {"preempted"}, "RUNNING": {"prefill", "decode"}}
NUM_KEPT = 3


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_ledger_and_fold_agree_about_every_unfinished_sequence(flavour: str):
    for seed in range(3):
        history = History(flavour, seed)
        history.run()
        fold = Fold(history.engine.engine.log_header())
        ledger, keeping = RequestLedger(), RequestLedger(NUM_KEPT)
        for event in history.engine.events:
            fold.apply(event)
            if type(event) in RequestLedger.APPLY:
                ledger.apply(event)
                keeping.apply(event)
            assert ledger.num_running == keeping.num_running == len(fold.running)
        check(ledger, Fold(history.engine.engine.log_header()), history.engine.events)
        assert ledger.sequences == {}
        assert list(keeping.sequences) and len(keeping.sequences) <= NUM_KEPT


def check(_ledger, fold, events):
    ledger = RequestLedger()
    for event in events:
        fold.apply(event)
