"""A real vLLM's scheduler and its recording say the same."""

import re

import pytest
from support.vllm.real_vllm import ROOT, needs_vllm, run_with_vllm

from minivllm.events.recording.recording import Recording
from minivllm.runtime.store.model_store import resolve_for_transformers
from minivllm.tui.state.model import MODELS

TRAFFIC = ROOT / "tests/support/vllm/random_traffic.py"
REAL_MODEL = ROOT / "tests/support/vllm/real_model.py"
REFUSED = ROOT / "tests/support/vllm/refused.py"


@needs_vllm
@pytest.mark.parametrize(
    ("first", "last"), [(0, 10), pytest.param(10, 200, marks=pytest.mark.slow)]
)
def test_the_fold_equals_vllms_own_state_after_every_call(first, last, tmp_path):
    results = run_with_vllm(TRAFFIC, tmp_path, str(first), str(last))
    assert [result["difference"] for result in results] == [None] * (last - first)
    assert all(result["num_checks"] > 200 for result in results)
    assert {result["is_async"] for result in results} == {False, True}
    for result in results:
        recording = Recording(tmp_path / f"{result['seed']}.jsonl", MODELS)
        assert recording.header.source.startswith("vLLM 0.")
        assert not recording.head.fold.sequences and recording.head.fold.counters.prompt_tokens


@needs_vllm
@pytest.mark.parametrize(
    "way", ["in-step", "run-ahead", pytest.param("drafts", marks=pytest.mark.slow)]
)
def test_the_fold_equals_a_vllm_that_serves_smollm2(way, tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    monkeypatch.setenv("MINIVLLM_RECORD_VERIFY", "1")
    (result,) = run_with_vllm(REAL_MODEL, resolve_for_transformers("smollm2"), way, path)
    assert result["difference"] is None and result["num_checks"] > 200
    recording = Recording(path, MODELS)
    counters, events = recording.head.fold.counters, recording.events(0, len(recording))
    assert counters.num_preemptions and counters.prefix_cache_hits and counters.evicted_blocks
    assert recording.header.max_num_seqs < counters.finished_requests
    assert (counters.spec_decode_num_accepted_tokens > 0) == (way == "drafts")
    assert any(getattr(event, "of_step", None) for event in events) == (way == "run-ahead")


@needs_vllm
def test_vllm_runs_on_without_a_recording_if_something_does_not_suit(tmp_path):
    *refused, patched, tried = run_with_vllm(REFUSED, tmp_path / "run.jsonl")
    assert {result["num_tokens"] for result in refused} >= {5}
    what = (
        "pipeline parallelism", "an encoder", "an encoder", "drafts, and no --no-async-scheduling",
        "MINIVLLM_RECORD_LIMIT is", "MINIVLLM_RECORD_LIMIT is", "MINIVLLM_RECORD_ANY_VERSION=1",
    )  # fmt: skip
    for words, result in zip(what, refused, strict=True):
        (said,) = result["said"]
        assert said.startswith("minivllm does not record: ") and words in said
    for result in (patched, tried):
        assert result["said"][0].startswith("minivllm records") and result["num_tokens"] == 5


@needs_vllm
def test_without_text_a_recording_of_vllm_has_no_token_ids(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIVLLM_RECORD_WITHOUT_TEXT", "1")
    results = run_with_vllm(TRAFFIC, tmp_path, "0", "8")
    assert [result["difference"] for result in results] == [None] * 8
    written = "".join((tmp_path / f"{seed}.jsonl").read_text() for seed in range(8))
    token_ids = re.findall(r'"(?:prompt_)?token_ids?":\[?([\d,]+)', written)
    assert len(token_ids) > 1000 and set("".join(token_ids)) == set("0,")
    for kind in ("request.arrived", "tokens.sampled", "draft.proposed", "draft.verified"):
        assert f'"{kind}"' in written
