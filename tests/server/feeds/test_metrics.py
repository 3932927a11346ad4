"""Prometheus metrics: the names that dashboards use, and values that equal an independent count."""

from random import Random

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.engine.engine_fakes import WatchedEngine
from support.engine.random_histories import SeerWithErrors

from minivllm.errors import SamplingError
from minivllm.events import types as ev
from minivllm.server.metrics.histograms import Histogram
from minivllm.server.metrics.router import EngineMetrics

# Metrics in vLLM's `examples/observability/prometheus_grafana/grafana.json`, by expression.
GRAFANA_HISTOGRAMS = (
    "e2e_request_latency_seconds", "inter_token_latency_seconds", "time_to_first_token_seconds",
)  # fmt: skip
GRAFANA_NAMES = [
    *(f"{name}_{part}" for name in GRAFANA_HISTOGRAMS for part in ("bucket", "sum", "count")),
    "prompt_tokens_total", "generation_tokens_total", "num_requests_running",
    "num_requests_waiting", "kv_cache_usage_perc", "request_prompt_tokens_bucket",
    "request_generation_tokens_bucket", "request_success_total", "request_queue_time_seconds_sum",
    "request_prefill_time_seconds_sum", "request_decode_time_seconds_sum",
    "request_max_num_generation_tokens_sum",
]  # fmt: skip


class Scrape:
    def __init__(self, metrics: EngineMetrics) -> None:
        self.families = {
            family.name: family
            for family in text_string_to_metric_families(metrics.text().decode())
        }
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        (found,) = [
            sample.value
            for sample in self.samples
            if sample.name == f"vllm:{name}" and labels.items() <= sample.labels.items()
        ]
        return found

    def histogram(self, name: str) -> dict[str, float]:
        return {s.labels["le"]: s.value for s in self.samples if s.name == f"vllm:{name}_bucket"}


def watched(**options: object) -> tuple[WatchedEngine, EngineMetrics]:
    engine = WatchedEngine(**options)
    metrics = EngineMetrics(engine.engine.log_header(), "served-name")
    engine.engine.subscribe(metrics.apply)
    return engine, metrics


def busy(run: bool = True) -> tuple[WatchedEngine, EngineMetrics]:
    """Shared prefixes, samples, beams, and a pool so small that sequences are preempted."""
    engine, metrics = watched(num_blocks=15, max_num_seqs=6, max_num_batched_tokens=24)
    for i in range(8):
        prompt = [1, 2, 3, 4, 5, 6, 7, 8, 10 + i, 20 + i]
        engine.add(f"plain-{i}", prompt, max_tokens=9 + i)
    engine.add("samples", list(range(30, 39)), max_tokens=6, n=3)
    engine.add("beams", list(range(40, 49)), max_tokens=5, n=3, use_beam_search=True)
    if run:
        engine.run()
    return engine, metrics


def test_every_expression_of_the_published_grafana_board_finds_its_metric_and_its_labels():
    engine, metrics = busy()
    scrape = Scrape(metrics)
    there = {sample.name for sample in scrape.samples}
    assert [name for name in GRAFANA_NAMES if f"vllm:{name}" not in there] == []
    labels = {"model_name": "served-name", "engine": "0"}.items()
    told = [sample for sample in scrape.samples if sample.name.startswith("vllm:")]
    told = [sample for sample in told if sample.name != "vllm:cache_config_info"]
    assert [sample for sample in told if not labels <= sample.labels.items()] == []
    # A pruned beam is no success, and leaves nothing behind.
    ended = len(engine.events_of(ev.RequestFinished))
    assert engine.events_of(ev.BeamPruned)
    assert scrape.value("e2e_request_latency_seconds_count") == ended
    assert metrics._totals.ledger.sequences == {}


def test_gauges_and_counters_equal_the_folded_state_at_any_step():
    engine, metrics = busy(run=False)
    while engine.engine.has_unfinished_requests():
        check_against_the_fold(Scrape(metrics), engine)
        engine.step()
    check_against_the_fold(Scrape(metrics), engine)
    wanted = {ev.RequestPreempted, ev.RequestForked, ev.BeamPruned, ev.BlockEvicted, ev.BlockHit}
    assert wanted <= {type(event) for event in engine.events}


def check_against_the_fold(scrape: Scrape, engine: WatchedEngine) -> None:
    fold = engine.fold
    assert scrape.value("num_requests_running") == len(fold.running)
    assert scrape.value("num_requests_waiting") == len(fold.waiting)
    num_used = len(fold.blocks) - len(fold.free_queue)
    assert scrape.value("kv_cache_usage_perc") == num_used / len(fold.blocks)
    counters = ("prefix_cache_queries", "prefix_cache_hits", "num_preemptions", "generation_tokens")
    for name in counters:
        assert scrape.value(f"{name}_total") == getattr(fold.counters, name), name
    steps = [event.used for event in engine.events_of(ev.StepEnd)]
    scheduled = scrape.value("iteration_tokens_total_sum")
    assert scheduled == sum(steps) == fold.counters.scheduled_tokens
    assert scrape.value("iteration_tokens_total_count") == len(steps)


def test_drafts_are_counted_under_vllms_names_and_only_where_there_are_any() -> None:
    engine, metrics = watched(
        proposer=SeerWithErrors(Random(1), 0.3),
        vocab_size=2,
        speculative_config={
            "method": "draft_model", "model": "fake", "num_speculative_tokens": 3,
        },
    )  # fmt: skip
    for i in range(3):
        engine.add(f"r{i}", [0, 1, i % 2], max_tokens=30, n=1 + i)
    engine.run()
    scrape, counters = Scrape(metrics), engine.fold.counters
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    totals = {name: scrape.value(f"spec_decode_{name}_total") for name in names}
    assert totals == {name: getattr(counters, f"spec_decode_{name}") for name in names}
    at = "spec_decode_num_accepted_tokens_per_pos_total"
    per_position = [scrape.value(at, position=str(i)) for i in range(3)]
    assert sum(per_position) == totals["num_accepted_tokens"] > 0
    assert per_position == sorted(per_position, reverse=True)
    assert "spec_decode" not in busy()[1].text().decode()


def test_the_phases_of_each_request_add_up_to_its_whole_latency():
    engine, metrics = watched(num_blocks=40, max_num_seqs=2)
    for i in range(6):
        engine.add(f"r{i}", list(range(4 + 3 * i)), max_tokens=2 + i)
    engine.run()
    scrape = Scrape(metrics)
    queue, prefill, decode = (
        scrape.value(f"request_{part}_time_seconds_sum") for part in ("queue", "prefill", "decode")
    )
    whole = scrape.value("e2e_request_latency_seconds_sum")
    assert queue + prefill + decode == pytest.approx(whole)
    assert scrape.value("request_inference_time_seconds_sum") == pytest.approx(prefill + decode)
    assert scrape.value("time_to_first_token_seconds_sum") == pytest.approx(queue + prefill)
    assert scrape.value("inter_token_latency_seconds_sum") == pytest.approx(decode)
    assert scrape.value("inter_token_latency_seconds_count") == sum(range(1, 7))
    first = {event.request_id: event.t for event in reversed(engine.events_of(ev.RequestArrived))}
    admitted = {event.seq_id: event.t for event in engine.events_of(ev.RequestAdmitted)}
    waited = sum(admitted[f"{name}.0"] - arrived for name, arrived in first.items())
    assert queue == pytest.approx(waited)
    assert scrape.value("request_prompt_tokens_sum") == scrape.value("prompt_tokens_total") == 69
    assert scrape.value("request_params_max_tokens_sum") == sum(range(2, 8))
    assert scrape.value("request_success_total", finished_reason="length") == 6


def test_samples_count_as_separate_requests_as_in_vllm():
    engine, metrics = watched()
    engine.add("many", [1, 2, 3, 4, 5], max_tokens=4, n=3)
    engine.step()
    assert Scrape(metrics).value("num_requests_running") == 3
    engine.run()
    scrape = Scrape(metrics)
    assert scrape.value("request_success_total", finished_reason="length") == 3
    assert scrape.value("time_to_first_token_seconds_count") == 3
    assert scrape.value("inter_token_latency_seconds_count") == 9
    assert scrape.value("request_params_n_count") == 1 and scrape.value("request_params_n_sum") == 3
    assert scrape.value("prompt_tokens_total") == 5
    assert scrape.value("request_max_num_generation_tokens_sum") == 4


def test_each_request_is_counted_by_its_finish_reason_and_has_only_times_that_happened():
    engine, metrics = watched(max_num_seqs=2)
    whole = engine.runner.sample_tokens
    engine.runner.sample_tokens = lambda sequences, logits, _: [
        SamplingError("NaN", sequence.seq_id) if sequence.seq_id == "bad.0" else token
        for sequence, token in zip(sequences, whole(sequences, logits), strict=True)
    ]
    engine.add("bad", [1, 2, 3])
    engine.add("good", [4, 5, 6])
    engine.add("aborted while it waits", [7, 8, 9])
    engine.step()
    engine.engine.abort_request("aborted while it waits")
    engine.run()
    scrape = Scrape(metrics)
    reasons = {"stop": 0, "length": 1, "abort": 1, "error": 1}
    for reason, number in reasons.items():
        assert scrape.value("request_success_total", finished_reason=reason) == number
    assert scrape.value("e2e_request_latency_seconds_count") == 3
    assert scrape.value("request_queue_time_seconds_count") == 2
    assert scrape.value("request_decode_time_seconds_count") == 1


def test_a_histogram_puts_a_value_on_a_boundary_into_the_bucket_below() -> None:
    histogram = Histogram((1, 2, 5))
    for value in (0.5, 1, 2, 2.1, 5, 9):
        histogram.observe(value)
    assert histogram.cumulative() == [("1.0", 2), ("2.0", 3), ("5.0", 5), ("+Inf", 6)]
    assert histogram.sum == pytest.approx(19.6)
