"""`Tap`: hooks on the methods of a vLLM scheduler that change its state.

`after_schedule` is called after vLLM's `schedule`, with its result and arguments, and
`before_schedule` before it. Hooks append records (`writer.py`) to a list, which goes to the writer
at the end of a call of the scheduler.

vLLM's own exceptions pass through. An error of ours removes all hooks, and vLLM runs on.

Source: vLLM `vllm/v1/core/sched/scheduler.py`, `vllm/v1/core/block_pool.py`.
"""

import logging
import time
from collections import OrderedDict
from itertools import chain
from typing import Any

from msgspec.structs import replace

from minivllm.errors import EventLogError, MinivllmError
from minivllm.events import types as ev
from minivllm.events.recording.compact import StepDecodes, TokensSampled
from minivllm.vllm.waits import first_waits, waiting_of
from minivllm.vllm.writer import Writer

_log = logging.getLogger("vllm.minivllm")


def short_hash(block_hash: bytes) -> str:
    return block_hash[:8].hex()


class Tap:
    def __init__(self, scheduler: Any, writer: Writer, *, without_text: bool = False) -> None:
        """Hook into all methods."""
        self._scheduler, self.writer, self._without_text = scheduler, writer, without_text
        self._manager = manager = scheduler.kv_cache_manager
        self._pool = pool = manager.block_pool
        self._tables = manager.coordinator.single_type_managers[0].req_to_blocks
        self._block_size, self._no_blocks = scheduler.block_size, manager.empty_kv_cache_blocks
        self.failure: Exception | None = None
        self.hooked: list[tuple[Any, str]] = []
        self._records, self._filled = [], []  # `_filled`: full blocks, emitted after their tokens
        self._step, self._is_open, self._began = 0, False, 0.0
        self._used, self._times, self._has_preempted = 0, [0.0] * 4, False
        self._planned, self._num_blocks = {}, {}  # tokens of this step; emitted blocks of a table
        self._shortage: tuple | None = None  # last failed allocation: request, blocks needed, free
        self._in_flight: dict[int, tuple[int, float]] = {}  # id of a plan -> its step and time
        self._update: tuple[int, int | None] | None = None  # its first record, its step if earlier
        self._evicted: OrderedDict[str, None] = OrderedDict()  # the newest evicted hashes
        # Rows of the batch, always the lowest free one. vLLM's workers may move a sequence.
        self._slots: dict[str, int] = {}
        for owner, names in (
            (scheduler, "add_request schedule update_from_output finish_requests shutdown"),
            (scheduler, "_preempt_request _free_request"),
            (manager, "allocate_slots free"),
            (pool, "cache_full_blocks _remove_cached_block_hashes reset_prefix_cache"),
        ):
            for name in names.split():
                self._hook(owner, name)

    def _hook(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)
        before, after = (getattr(self, f"{when}_{name}", None) for when in ("before", "after"))

        def hooked(*args: Any, **kwargs: Any) -> Any:
            if before is not None:
                try:
                    before(*args, **kwargs)
                except Exception as error:
                    self.fail(error)
            result = original(*args, **kwargs)
            if after is not None:
                try:
                    after(result, *args, **kwargs)
                except Exception as error:
                    self.fail(error)
            return result

        setattr(owner, name, hooked)  # on the object: its class stays vLLM's own
        self.hooked.append((owner, name))

    def fail(self, error: Exception) -> None:
        """End the recording. Any thread may call this."""
        if self.failure is None:
            self.failure = error
            for owner, name in self.hooked:
                vars(owner).pop(name, None)
            what = str(error) if isinstance(error, MinivllmError) else repr(error)
            _log.error("minivllm has stopped recording, vLLM continues: %s", what)
            self.writer.close()

    def emit(self, kind: type, *fields: object) -> None:
        self._records.append((kind, self._step, time.monotonic(), *fields))

    def _end_call(self, *_: object, **__: object) -> None:
        if self._update is None and (self._records or self.writer.at_once):
            records, self._records = self._records, []
            self.writer.put(records)

    def _shown(self, token_ids: list[int]) -> list[int]:
        return [0] * len(token_ids) if self._without_text else token_ids

    # ---- requests ----

    def after_add_request(self, _: None, request: Any) -> None:
        if request.resumable or request.sampling_params is None or request.prompt_token_ids is None:
            raise EventLogError("there are no events for streamed, pooled or embedded prompts")
        name, sampling = request.request_id, ev.RequestSampling.of(request.sampling_params)
        if self._without_text:
            none = {"stop": [], "stop_token_ids": [], "logit_bias": None}
            sampling = replace(sampling, **none, structured_outputs=None)
        tokens, at = self._shown(list(request.prompt_token_ids)), waiting_of(self._scheduler)
        fields = at.index(request), tokens, request.max_tokens, request.priority, None, 1, sampling
        self.emit(ev.RequestArrived, name, name, *fields)
        if request.status.name == "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR":
            self.emit(ev.RequestDeferred, name, "grammar_not_compiled", 0, 0)
        self._end_call()

    def after__preempt_request(self, _: None, request: Any, *__: Any, **___: Any) -> None:
        name, self._has_preempted = request.request_id, True
        if self._planned.pop(name, None) is not None:
            self.emit(ev.StepWithdrawn, name)
        del self._slots[name]
        by, need, free = self._shortage or (request, -1, 0)  # -1: the prefix cache is reset
        position = waiting_of(self._scheduler).index(request)
        self.emit(ev.RequestPreempted, name, by.request_id, need, free, position)

    def after__free_request(self, _: object, request: Any, *__: Any, **___: Any) -> None:
        name, status = request.request_id, request.status.name.removeprefix("FINISHED_")
        self._slots.pop(name, None)
        if status in ("ABORTED", "ERROR"):
            self.emit(ev.RequestAborted, name, "FINISHED_ERROR" if status == "ERROR" else None)
        else:
            why = "length" if status in ("LENGTH_CAPPED", "IGNORED") else "stop"
            reason = None if self._without_text else request.stop_reason
            self.emit(ev.RequestFinished, name, why, reason)

    after_finish_requests = after_reset_prefix_cache = _end_call

    def after_shutdown(self, _: None) -> None:
        self._end_step()
        self._end_call()
        self.writer.close(10.0)

    # ---- a step ----

    def before_schedule(self, *_: Any, **__: Any) -> None:
        self._end_step()
        self._step, self._has_preempted, self._planned = self._step + 1, False, {}
        self._began, budget = time.monotonic(), self._scheduler.max_num_scheduled_tokens
        self._records.append((ev.StepBegin, self._step, self._began, budget))

    def after_schedule(self, plan: Any, throttle_prefills: bool = False) -> None:
        now, budget = time.monotonic(), self._scheduler.max_num_scheduled_tokens
        self._used = plan.total_num_scheduled_tokens
        self._times = [now - self._began, 0.0, 0.0, 0.0]  # schedule, prepare, model, update
        if self._planned != plan.num_scheduled_tokens:
            raise EventLogError(f"vLLM planned {plan.num_scheduled_tokens}, not {self._planned}")
        self._is_open = self._records[-1][0] is not ev.StepBegin
        if self._is_open:
            facts = budget - self._used, self._shortage, self._has_preempted, throttle_prefills
            for wait in first_waits(self._scheduler, *facts):
                self.emit(ev.RequestDeferred, *wait)
        else:  # vLLM also plans when there is nothing to do
            self._records.pop()
            self._step -= 1
        self._shortage, self._in_flight[id(plan)] = None, (self._step, now)
        if self.writer.at_once:  # else the plan goes to the writer with the step's tokens
            self._end_call()

    def before_update_from_output(self, plan: Any, output: Any) -> None:
        self._began = time.monotonic()
        step, planned = self._in_flight.pop(id(plan), (self._step, self._began))
        self._times[2] = self._began - planned
        self._update = len(self._records), step if step != self._step else None

    def after_update_from_output(self, outputs: dict, plan: Any, output: Any) -> None:
        self._times[3] = time.monotonic() - self._began
        (start, of_step), self._update = self._update, None
        self._records[start:start] = self._tokens_of(outputs, plan, output, of_step)
        self._emit_filled()
        self._end_step()
        self._end_call()

    def _tokens_of(self, outputs: dict, plan: Any, output: Any, of_step: Any) -> list[tuple]:
        found, names, token_ids, logprobs = [], [], [], []
        for one in chain.from_iterable(client.outputs for client in outputs.values()):
            new, name = one.new_token_ids, one.request_id
            if new and name in plan.scheduled_spec_decode_tokens:  # `new` ends with a stop
                ids = self._shown(output.sampled_token_ids[output.req_id_to_index[name]])
                found.append((ev.DraftVerified, name, len(ids) - 1, ids[-1]))
            names += [name] * len(new)
            token_ids += new
            if output.logprobs is not None:
                rows = one.new_logprobs
                logprobs += [None] * len(new) if rows is None else rows.logprobs[:, 0].tolist()
        if names:
            found.append((TokensSampled, names, self._shown(token_ids), logprobs, of_step))
        return [(kind, self._step, self._began, *fields) for kind, *fields in found]

    def _end_step(self) -> None:
        if self._is_open:
            self._is_open = False
            self.emit(ev.StepEnd, self._used, *self._times)

    # ---- blocks of a sequence ----

    def after_allocate_slots(self, blocks: Any, request: Any, count: int, **more: Any) -> None:
        name, before = request.request_id, request.num_computed_tokens
        is_running = name in self._slots
        if blocks is None:
            need = self._needed(request, before + count, **more)
            self._shortage = request, need, self._pool.get_num_free_blocks()
            return
        self._planned[name] = count
        num_hits = more.get("num_new_computed_tokens", 0) // self._block_size
        if blocks is not self._no_blocks or num_hits:
            table = self._tables[name]
            for at in range(self._num_blocks.get(name, 0), len(table)):
                if at < num_hits:  # only an admission has hits
                    self.emit(ev.BlockHit, table[at].block_id, name, at, table[at].ref_cnt == 1)
                else:
                    self.emit(ev.BlockAllocated, table[at].block_id, name, at)
            self._num_blocks[name] = len(table)
        is_decode = count == 1 and before >= request.num_prompt_tokens
        if is_running and is_decode and not request.spec_token_ids:
            if (last := self._records[-1])[0] is StepDecodes:
                last[3].append(name)
                last[4].append(before)
            else:
                self.emit(StepDecodes, [name], [before])
        else:
            self._schedule(request, count, before if is_running else None, num_hits)
        if self._filled:
            self._emit_filled()

    def _needed(self, request: Any, num_tokens: int, **first: Any) -> int:
        """How many blocks an allocation needs. `first`: only of a request that waits."""
        table, more = self._tables[request.request_id], first.get
        num_tokens += more("num_lookahead_tokens", 0) + more("num_new_computed_tokens", 0)
        if more("full_sequence_must_fit"):
            num_tokens = max(num_tokens, request.num_tokens)
        hits = more("new_computed_blocks", self._no_blocks).blocks[0]
        num_held = sum(block.ref_cnt > 0 for block in hits) + len(table)
        watermark = self._manager.watermark_blocks if more("has_scheduled_reqs") else 0
        return -(-num_tokens // self._block_size) - num_held + watermark

    def _schedule(self, request: Any, count: int, before: int | None, num_hits: int) -> None:
        name = request.request_id
        if before is None:
            before = num_hits * self._block_size
            if why := self._why_missed(request, num_hits):
                self.emit(ev.BlockMissed, name, num_hits, why)
            rows = set(range(len(self._slots) + 1)).difference(self._slots.values())
            slot = self._slots[name] = min(rows)
            kind = ev.RequestResumed if request.num_preemptions else ev.RequestAdmitted
            self.emit(kind, name, slot, before, before)
        num_drafts = before + count - request.num_tokens - request.num_output_placeholders
        num_own = count - max(0, num_drafts)
        is_decode = num_own == 1 and before >= request.num_prompt_tokens
        self.emit(ev.StepScheduled, name, num_own, "decode" if is_decode else "prefill", before)
        if num_drafts > 0:
            # A resumed sequence is padded with drafts that have no ids: -1, and 0 in the event.
            drafts = [max(token_id, 0) for token_id in request.spec_token_ids] + [0] * num_drafts
            method = self._scheduler.vllm_config.speculative_config.method
            source = "ngram" if "ngram" in method else "draft_model"
            self.emit(ev.DraftProposed, name, self._shown(drafts[:num_drafts]), source)

    def _why_missed(self, request: Any, num_hits: int) -> str | None:
        """Why the lookup found no further block. None if there is no further one."""
        hashes = request.block_hashes
        if not self._manager.enable_caching:
            return "caching_off"
        if request.skip_reading_prefix_cache:
            return "prompt_logprobs"
        if not hashes:
            return "prompt_shorter_than_a_block"
        if num_hits == len(hashes):
            return None
        if num_hits >= (request.num_tokens - 1) // self._block_size:
            return "last_block_not_looked_up"
        return "evicted" if short_hash(hashes[num_hits]) in self._evicted else "never_seen"

    def before_free(self, request: Any) -> None:
        """vLLM puts blocks without a hash at the head of its queue, and the others at the tail."""
        self._emit_filled()
        name, table = request.request_id, self._tables.get(request.request_id, ())
        self._num_blocks.pop(name, None)
        for block in reversed(table):
            self.emit(ev.BlockReleased, block.block_id, name)
        for position, blocks in (("head", table), ("tail", reversed(table))):
            for block in blocks:
                if block.ref_cnt == 1 and (block.block_hash is None) == (position == "head"):
                    self.emit(ev.BlockFreed, block.block_id, position)

    # ---- the prefix cache ----

    def after_cache_full_blocks(self, _: None, request: Any, blocks: list, **span: Any) -> None:
        name, hashes = request.request_id, request.block_hashes
        for at in range(span["num_cached_blocks"], span["num_full_blocks"]):
            parent = short_hash(hashes[at - 1]) if at else None
            self._filled.append((blocks[at].block_id, short_hash(hashes[at]), parent, name))

    def _emit_filled(self) -> None:
        filled, self._filled = self._filled, []
        for fields in filled:
            self._evicted.pop(fields[1], None)
            self.emit(ev.BlockHashed, *fields)

    def after__remove_cached_block_hashes(self, keys: list[bytes], block: Any) -> None:
        for key in keys:
            if self._pool.cached_block_hash_to_block.get_one_block(key) is None:
                self._evicted[short_hash(key)] = None
                if len(self._evicted) > len(self._pool.blocks):
                    self._evicted.popitem(last=False)
            self.emit(ev.BlockEvicted, block.block_id, short_hash(key))

    def before_reset_prefix_cache(self) -> None:
        if self._pool.get_num_free_blocks() == len(self._pool.blocks) - 1:  # else vLLM refuses
            for block in self._pool.blocks:
                if block.block_hash is not None:
                    self.emit(ev.BlockEvicted, block.block_id, short_hash(block.block_hash))
