"""The hooks on vLLM's objects: an error of ours never stops vLLM, and its own errors pass."""

from types import SimpleNamespace

import pytest
from support.vllm.recorded import HEADER

from minivllm.errors import EventLogError
from minivllm.events import types as ev
from minivllm.sampling_params import StructuredOutputsParams
from minivllm.vllm.tap import Tap
from minivllm.vllm.texts import Texts
from minivllm.vllm.waits import first_waits
from minivllm.vllm.writer import Writer


class Pool:
    """Has the methods of vLLM's block pool that are hooked."""

    def cache_full_blocks(self, *_, **__): ...

    def _remove_cached_block_hashes(self, block):
        return []

    def reset_prefix_cache(self):
        return False


TABLES = {
    "r": [
        SimpleNamespace(block_id=number, ref_cnt=count, block_hash=value)
        for number, count, value in zip(
            (1, 2, 3, 4, 5), (1, 1, 2, 1, 1), (None, *"xy", None, "z"), strict=True
        )
    ]
}


class Scheduler:
    """Has what the tap takes of vLLM's scheduler."""

    max_num_running_reqs = max_num_scheduled_tokens = block_size = 4

    def __init__(self) -> None:
        self.pool = Pool()
        coordinator = SimpleNamespace(single_type_managers=[SimpleNamespace(req_to_blocks=TABLES)])
        self.kv_cache_manager = Manager(self.pool, coordinator)

    def schedule(self):
        raise RuntimeError("vLLM's own")

    def finish_requests(self, *_):
        return ["aborted"]

    def add_request(self, *_): ...
    def update_from_output(self, plan, output):
        self._free_request(output.ends)
        return output.made

    def shutdown(self): ...
    def _preempt_request(self, *_): ...
    def _free_request(self, *_): ...


class Manager:
    empty_kv_cache_blocks = None

    def __init__(self, pool: Pool, coordinator: SimpleNamespace) -> None:
        self.block_pool, self.coordinator = pool, coordinator

    def allocate_slots(self, *_): ...
    def free(self, request): ...


def tapped() -> tuple[Scheduler, Tap, list]:
    scheduler, sent = Scheduler(), []
    close = lambda: sent.append("closed")  # noqa: E731
    return scheduler, Tap(scheduler, SimpleNamespace(put=sent.append, close=close, at_once=1)), sent


def test_an_error_of_the_recorder_removes_its_hooks_with_one_line_in_the_log(caplog):
    scheduler, tap, sent = tapped()
    tap.writer.put = lambda records: 1 / 0
    assert scheduler.finish_requests("r", None) == ["aborted"]
    assert isinstance(tap.failure, ZeroDivisionError) and sent == ["closed"]
    assert [record.name for record in caplog.records] == ["vllm.minivllm"]
    assert not {"finish_requests", "schedule"} & set(vars(scheduler))
    assert scheduler.finish_requests("r", None) == ["aborted"] and len(caplog.records) == 1


def test_vllms_own_error_passes_and_does_not_end_the_recording():
    scheduler, tap, _ = tapped()
    with pytest.raises(RuntimeError, match="vLLM's own"):
        scheduler.schedule()
    assert tap.failure is None


def test_freed_blocks_are_recorded_in_the_order_of_vllms_queue():
    scheduler, _, sent = tapped()
    scheduler.kv_cache_manager.free(SimpleNamespace(request_id="r"))
    scheduler.finish_requests()
    released = [fields[0] for kind, _, _, *fields in sent[0] if kind is ev.BlockReleased]
    freed = [fields for kind, _, _, *fields in sent[0] if kind is ev.BlockFreed]
    assert released == [5, 4, 3, 2, 1], "the last one first"
    assert freed == [[1, "head"], [4, "head"], [5, "tail"], [2, "tail"]], (
        "4 is the next to be taken"
    )


def test_a_request_without_events_ends_the_recording_with_a_sentence(caplog):
    scheduler, tap, _ = tapped()
    scheduler.add_request(SimpleNamespace(resumable=True))
    assert isinstance(tap.failure, EventLogError) and "vLLM continues: there are no" in caplog.text


def test_without_text_the_file_has_no_token_id_and_no_text(tmp_path):
    scheduler, token_id, path = Scheduler(), 98765432101, tmp_path / "run.jsonl"
    params = SimpleNamespace(
        stop=["secret"], stop_token_ids=[token_id], logit_bias={token_id: 1.0}, temperature=0.5,
        structured_outputs=StructuredOutputsParams(choice=["secret"]),
    )  # fmt: skip
    request = SimpleNamespace(
        request_id="r", resumable=False, sampling_params=params, prompt_token_ids=[token_id] * 2,
        max_tokens=9, priority=0, stop_reason="secret",
        status=SimpleNamespace(name="FINISHED_STOPPED"),
    )  # fmt: skip
    scheduler.kv_holding_waiting, scheduler.waiting = [], [request]
    writer = Writer(str(path), HEADER, Texts(None))
    tap = Tap(scheduler, SimpleNamespace(put=writer.take, at_once=1), without_text=True)
    plan = SimpleNamespace(scheduled_spec_decode_tokens=["r"])
    token = SimpleNamespace(request_id="r", new_token_ids=[token_id], new_logprobs=None)
    made = {0: SimpleNamespace(outputs=[token])}
    drawn = {"sampled_token_ids": [[token_id]], "req_id_to_index": {"r": 0}, "logprobs": None}
    scheduler.add_request(request)
    scheduler.update_from_output(plan, SimpleNamespace(made=made, ends=request, **drawn))
    scheduler.finish_requests()
    written = path.read_text()
    kinds = "request.arrived", "draft.verified", "tokens.sampled", "request.finished"
    at = [written.index(f'"{kind}"') for kind in kinds]
    assert at == sorted(at), "vLLM ends a request before it returns the tokens"
    assert tap.failure is None and '"temperature":0.5' in written
    assert "secret" not in written and str(token_id) not in written


# ---- reasons to wait ----


def waiting(name: str, status: str = "WAITING", stale: int = 0, num_tokens: int = 30):
    return SimpleNamespace(
        request_id=name, status=SimpleNamespace(name=status), num_stale_output_tokens=stale,
        drop_stale_output=False, num_tokens=num_tokens, lora_request=None,
    )  # fmt: skip


def why(*requests, left=8, shortage=None, preempted=False, throttled=False, **scheduler):
    usual = {
        "kv_holding_waiting": [], "waiting": requests, "running": [], "max_num_active_reqs": 4,
        "pause_state": SimpleNamespace(name="UNPAUSED"), "lora_config": None, "num_spec_tokens": 0,
        "scheduler_config": SimpleNamespace(enable_chunked_prefill=True),
    }  # fmt: skip
    vllm = SimpleNamespace(**usual | scheduler)
    return list(first_waits(vllm, left, shortage, preempted, throttled))


def test_the_reason_to_wait_follows_the_order_of_vllms_loop():
    first, second = waiting("a"), waiting("b")
    full = {"running": [1, 2, 3, 4]}
    assert why(first, second, left=0, **full) == [("a", "token_budget", 30, 0)]
    assert why(first, second, **full) == [("a", "max_num_seqs", 1, 0)]
    assert why(first, second, shortage=(first, 5, 2)) == [("a", "no_blocks", 5, 2)]
    preempted = why(first, second, shortage=(second, 5, 2), preempted=True)
    assert preempted == [("a", "preempted_this_step", 5, 2)]
    unchunked = {"scheduler_config": SimpleNamespace(enable_chunked_prefill=False)}
    assert why(first, **unchunked) == [("a", "token_budget", 30, 8)]
    assert why(first, throttled=True) == [("a", "throttled", 0, 0)]
    assert why(first, pause_state=SimpleNamespace(name="PAUSED_NEW")) == [("a", "paused", 0, 0)]
    assert why(first) == [("a", "other", 0, 0)] and why() == []


def test_requests_that_others_may_pass_do_not_hide_the_one_that_blocks():
    grammar = waiting("a", "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR")
    stale, blocked = waiting("b", stale=1), waiting("c")
    found = why(grammar, stale, blocked, left=0)
    assert found == [("b", "stale_output", 0, 0), ("c", "token_budget", 30, 0)]
    assert {"grammar_not_compiled", "stale_output"} < ev.PASSED_REASONS
