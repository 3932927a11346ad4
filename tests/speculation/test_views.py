"""Every view follows a run with drafts: dashboard, facts, KV feed, metrics, keyframes."""

from collections import Counter
from collections.abc import Callable

import pytest
from support.engine.random_histories import History

from minivllm.events import types as ev
from minivllm.events.ledger import RequestLedger
from minivllm.lab.compare.latency import measure_latencies
from minivllm.lessons.scenarios.facts import RunFacts
from minivllm.server.metrics.router import EngineMetrics


@pytest.fixture(scope="module")
def history() -> History:
    """A history with preemptions, in which drafts were accepted and rejected."""
    for seed in range(20):
        history = History("drafts", seed)
        kinds = history.run()
        counters = history.engine.fold.counters
        accepted = counters.spec_decode_num_accepted_tokens
        if 4 < accepted < counters.spec_decode_num_draft_tokens and kinds[ev.RequestPreempted]:
            return history
    raise AssertionError("no history has all of it")


def applied(history: History, apply: Callable[[ev.Event], None]) -> None:
    for event in history.engine.events:
        apply(event)


def test_facts_metrics_and_ledger_count_each_token_once(history: History) -> None:
    header, num_tokens = history.engine.fold.header, history.engine.fold.counters.generation_tokens
    facts, metrics, ledger = RunFacts(header), EngineMetrics(header), RequestLedger(num_kept=99)
    for view in (facts, metrics):
        applied(history, view.apply)
    applied(history, lambda event: type(event) in ledger.APPLY and ledger.apply(event))
    assert facts.fold.counters.generation_tokens == num_tokens
    assert metrics._totals.counters["generation_tokens"] == num_tokens
    # As in vLLM, all tokens of a step make one gap.
    steps = Counter((one.seq_id, one.step) for one in history.engine.events_of(ev.TokenSampled))
    assert len(steps) < num_tokens
    num_gaps = len(steps) - len({seq_id for seq_id, _ in steps})
    gaps = metrics._totals.histograms["inter_token_latency_seconds"].snapshot()
    assert gaps.buckets()[-1] == ("+Inf", num_gaps)
    assert len(measure_latencies(history.engine.events).between_tokens) == num_gaps
