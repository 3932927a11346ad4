"""The request ledger against the fold, in random histories of the engine."""

import pytest
from support.engine.random_histories import FLAVOURS, History

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.ledger import RequestLedger

STATUS = {"queued": "WAITING", "prefill": "RUNNING", "decode": "RUNNING", "preempted": "PREEMPTED"}
NUM_KEPT = 3


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_ledger_and_the_fold_agree_about_every_unfinished_sequence(flavour):
    history = History(flavour, 0)
    history.run()
    fold = Fold(history.engine.engine.log_header())
    for_metrics, for_views = RequestLedger(), RequestLedger(NUM_KEPT)
    for event in history.engine.events:
        fold.apply(event)
        if type(event) not in RequestLedger.APPLY:
            continue
        for_metrics.apply(event)
        for_views.apply(event)
        assert for_metrics.sequences.keys() == fold.sequences.keys()
        kept = for_views.sequences.keys() - fold.sequences.keys()
        assert kept == set(for_views.kept) and len(kept) <= NUM_KEPT
        assert for_metrics.num_running == for_views.num_running == len(fold.running)
        for seq_id, sequence in fold.sequences.items():
            record = for_views.sequences[seq_id]
            assert STATUS[record.phase] == sequence.status
            assert record.num_tokens == len(sequence.output_token_ids)
            assert record.num_preemptions == sequence.num_preemptions
            assert record.request.num_sequences == len(fold.requests[sequence.request_id].seq_ids)
    assert for_metrics.sequences == {} and for_views.sequences


def test_a_request_that_reuses_a_name_does_not_inherit_the_forks_of_the_old_one():
    ledger = RequestLedger(NUM_KEPT)
    for event in (
        ev.RequestArrived(0, 0, 0.0, "ada", "ada.0", 0, [1], 4, n=2),
        ev.RequestForked(1, 1, 0.1, "ada.1", "ada.0", 1, 1),
        ev.RequestFinished(2, 2, 0.2, "ada.0", "stop"),
        ev.RequestFinished(3, 2, 0.2, "ada.1", "stop"),
        ev.RequestArrived(4, 3, 0.3, "ada", "ada.0", 0, [1], 4),
    ):
        ledger.apply(event)
    assert list(ledger.sequences) == ["ada.0"] and ledger.kept == []
    assert ledger.sequences["ada.0"].arrived == 0.3


def test_sequences_that_arrived_before_the_first_event_are_ignored():
    ledger = RequestLedger(NUM_KEPT)
    ledger.apply(ev.TokenSampled(0, 1, 0.1, "ada.0", 7, "x"))
    ledger.apply(ev.RequestForked(1, 1, 0.1, "ada.1", "ada.0", 1, 1))
    ledger.apply(ev.RequestFinished(2, 2, 0.2, "ada.0", "stop"))
    assert ledger == RequestLedger(NUM_KEPT)
