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
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from msgspec.structs import replace

from minivllm.errors import EventLogError, MinivllmError
from minivllm.events import types as ev
from minivllm.events.recording.compact import StepDecodes, TokensSampled
from minivllm.vllm.waits import first_waits, waiting_of
from minivllm.vllm.writer import Record

_log = logging.getLogger("vllm.minivllm")
_CACHE_RESET = -1
"""`need` of a preemption that makes no room for another sequence."""


def short_hash(block_hash: bytes) -> str:
    return block_hash[:8].hex()


class Tap:
    def __init__(self, scheduler: Any, status: Any, *, without_text: bool = False) -> None:
        """status: vLLM's `RequestStatus`"""
        self._scheduler, self._status = scheduler, status
        self._manager = scheduler.kv_cache_manager
        self._pool = self._manager.block_pool
        self._tables = self._manager.coordinator.single_type_managers[0].req_to_blocks
        self._without_text = without_text
        self.failure: Exception | None = None
        self._undo: list[Callable[[], None]] = []
        self._records: list[Record] = []
        self._in_flight: dict[int, tuple[int, float]] = {}
        """id of a plan without its output -> its step, and when it was planned."""
        # A step begins with its first event: vLLM also plans when there is nothing to do.
        self._step, self._may_begin, self._is_open = 0, False, False
        self._began, self._times, self._used = 0.0, [0.0, 0.0, 0.0], 0
        self._planned: dict[str, int] = {}
        self._need, self._has_preempted = 0, False
        self._shortage: tuple[Any, int, int] | None = None
        """The last failed allocation: request, blocks needed, blocks free."""
        self._output: tuple[Any, Any, int | None] = None, None, None
        """Plan and output of the current update, and the step if it is an earlier one."""
        self._freeing = ""
        """The sequence whose blocks are freed."""
        self._taken: list[tuple] = []
        """Blocks that were hit or allocated, until it is known for which sequence."""
        self._filled: list[tuple[int, str, str | None, str]] = []
        """Full blocks, until the events of their sequence that come first are emitted."""
        self._evicted: OrderedDict[str, None] = OrderedDict()
        """The newest hashes that were evicted, at most one for each block of the pool."""
        self._cached: list[tuple[int, str]] = []
        self._slots: dict[str, int] = {}
        """Rows of the batch, always the lowest free one. vLLM's workers may move a sequence."""
        self._free_slots = list(range(scheduler.max_num_running_reqs))

    def connect(
        self,
        send: Callable[[list[Record]], None],
        close: Callable[..., None],
        check: Callable[[], None] | None = None,
    ) -> None:
        """Hook into all methods.

        send:  takes the records of a call
        close: called at the end, with the seconds for which vLLM may wait, or without
        check: called after each call, when its records have been sent
        """
        self._send, self._close, self._check = send, close, check
        for owner, names in (
            (
                self._scheduler,
                "add_request schedule update_from_output finish_requests shutdown"
                " _preempt_request _update_request_with_output _free_request",
            ),
            (self._manager, "allocate_slots free"),
            (self._manager.coordinator, "get_num_blocks_to_allocate"),
            (
                self._pool,
                "get_new_blocks touch free_blocks cache_full_blocks _remove_cached_block_hashes"
                " reset_prefix_cache",
            ),
        ):
            for name in names.split():
                self._hook(owner, name)
        free_blocks = self._pool.free_blocks  # vLLM can pass an iterator, which is read only once
        self._pool.free_blocks = lambda blocks: free_blocks(list(blocks))

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
        self._undo.append(lambda: vars(owner).pop(name, None))

    def fail(self, error: Exception) -> None:
        """End the recording. Any thread may call this."""
        if self.failure is None:
            self.failure = error
            for undo in self._undo:
                undo()
            what = str(error) if isinstance(error, MinivllmError) else repr(error)
            _log.error("minivllm has stopped recording, vLLM continues: %s", what)
            self._close()

    def emit(self, kind: type, *fields: object) -> None:
        if self._may_begin:
            self._may_begin, self._is_open = False, True
            self._step += 1
            self.emit(ev.StepBegin, self._scheduler.max_num_scheduled_tokens)
        self._records.append((kind, self._step, time.monotonic(), *fields))

    def _end_step(self) -> None:
        self._may_begin = False
        if self._is_open:
            self._is_open = False
            self._emit_filled()
            schedule, model, update = self._times
            self.emit(ev.StepEnd, self._used, schedule, 0.0, model, update)

    def _end_call(self) -> None:
        self._emit_filled()
        if self._records:
            records, self._records = self._records, []
            self._send(records)
        if self._check is not None:
            self._check()

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
        tokens = self._shown(list(request.prompt_token_ids))
        fields = name, name, self._position(name), tokens, request.max_tokens, request.priority
        self.emit(ev.RequestArrived, *fields, None, 1, sampling)
        if request.status.name == "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR":
            self.emit(ev.RequestDeferred, name, "grammar_not_compiled", 0, 0)
        self._end_call()

    def after__preempt_request(self, _: None, request: Any, *__: Any, **___: Any) -> None:
        name, self._has_preempted = request.request_id, True
        if self._planned.pop(name, None) is not None:
            self.emit(ev.StepWithdrawn, name)
        by, need, free = self._shortage or (request, _CACHE_RESET, 0)
        heappush(self._free_slots, self._slots.pop(name))
        position = self._position(name)
        self.emit(ev.RequestPreempted, name, by.request_id, need, free, position)

    def _position(self, name: str) -> int:
        return [waits.request_id for waits in waiting_of(self._scheduler)].index(name)

    def after__free_request(self, _: object, request: Any, *__: Any, **___: Any) -> None:
        name, status = request.request_id, request.status.name
        if name in self._slots:
            heappush(self._free_slots, self._slots.pop(name))
        if status in ("FINISHED_LENGTH_CAPPED", "FINISHED_IGNORED"):
            self.emit(ev.RequestFinished, name, "length")
        elif status in ("FINISHED_ABORTED", "FINISHED_ERROR"):
            self.emit(ev.RequestAborted, name, status if status == "FINISHED_ERROR" else None)
        else:
            reason = None if self._without_text else request.stop_reason
            self.emit(ev.RequestFinished, name, "stop", reason)

    def after_finish_requests(self, *_: Any, **__: Any) -> None:
        self._end_call()

    def after_shutdown(self, *_: Any) -> None:
        self._end_step()
        self._end_call()
        self._close(10.0)

    # ---- a step ----

    def before_schedule(self, *_: Any, **__: Any) -> None:
        self._end_step()
        self._may_begin, self._has_preempted, self._planned = True, False, {}
        self._began = time.perf_counter()

    def after_schedule(self, plan: Any, throttle_prefills: bool = False) -> None:
        now, self._used = time.perf_counter(), plan.total_num_scheduled_tokens
        self._may_begin = False
        self._times = [now - self._began, 0.0, 0.0]
        if self._planned != plan.num_scheduled_tokens:
            raise EventLogError(f"vLLM planned {plan.num_scheduled_tokens}, not {self._planned}")
        if self._used:
            left = self._scheduler.max_num_scheduled_tokens - self._used
            facts = left, self._shortage, self._has_preempted, throttle_prefills
            for wait in first_waits(self._scheduler, *facts):
                self.emit(ev.RequestDeferred, *wait)
        self._shortage = None
        self._in_flight[id(plan)] = self._step, now
        if self._check is not None:  # else the plan goes to the writer with the step's tokens
            self._end_call()

    def before_update_from_output(self, plan: Any, output: Any) -> None:
        self._began = time.perf_counter()
        step, planned = self._in_flight.pop(id(plan), (self._step, self._began))
        self._times[1] = self._began - planned
        self._output = plan, output, step if step != self._step else None

    def after_update_from_output(self, *_: Any) -> None:
        self._times[2] = time.perf_counter() - self._began
        self._end_step()
        self._output = None, None, None
        self._end_call()

    def after__update_request_with_output(
        self, result: tuple, request: Any, sampled: list[int], *_: Any, **__: Any
    ) -> None:
        """sampled: all tokens of the output; those after a stop are not in `result`"""
        token_ids, name, (plan, output, of_step) = result[0], request.request_id, self._output
        if name in plan.scheduled_spec_decode_tokens:
            self.emit(ev.DraftVerified, name, len(sampled) - 1, self._shown(sampled)[-1])
        logprobs = [None] * len(token_ids)
        if output.logprobs is not None and request.sampling_params.logprobs is not None:
            rows = output.logprobs.slice_request(output.req_id_to_index[name], len(token_ids))
            logprobs = rows.logprobs[:, 0].tolist()
        for token_id, logprob in zip(self._shown(token_ids), logprobs, strict=True):
            self.emit(TokensSampled, name, token_id, logprob, of_step)
        if self._filled:  # with asynchronous scheduling, this token can fill a block (vLLM 0.32)
            self._emit_filled()

    # ---- blocks of a sequence ----

    def before_free(self, request: Any) -> None:
        self._freeing = request.request_id

    def after_get_num_blocks_to_allocate(self, num_blocks: int, *_: Any, **__: Any) -> None:
        self._need = num_blocks

    def after_allocate_slots(
        self, blocks: Any, request: Any, num_new_tokens: int, *_: Any, **more: Any
    ) -> None:
        name, before = request.request_id, request.num_computed_tokens
        is_running = request.status is self._status.RUNNING
        if blocks is None:
            held = 0 if is_running else self._manager.watermark_blocks
            need = self._need + (held if more.get("has_scheduled_reqs", True) else 0)
            self._shortage = request, need, self._pool.get_num_free_blocks()
            return
        self._planned[name] = num_new_tokens
        if self._taken:
            taken, self._taken = self._taken, []
            for logical, (kind, block_id, *was_free) in enumerate(
                taken, len(self._tables[name]) - len(taken)
            ):
                self.emit(kind, block_id, name, logical, *was_free)
        is_decode = num_new_tokens == 1 and before >= request.num_prompt_tokens
        if is_running and is_decode and not request.spec_token_ids:
            self.emit(StepDecodes, name, before)
        else:
            if not is_running:
                before = more.get("num_new_computed_tokens", 0)
                self._admit(request, before)
            self._schedule(request, num_new_tokens, before)
        if self._filled:
            self._emit_filled()

    def _admit(self, request: Any, num_cached: int) -> None:
        name, num_hits = request.request_id, num_cached // self._scheduler.block_size
        if why := self._why_missed(request, num_hits):
            self.emit(ev.BlockMissed, name, num_hits, why)
        slot = self._slots[name] = heappop(self._free_slots)
        is_resumed = request.status is self._status.PREEMPTED
        kind = ev.RequestResumed if is_resumed else ev.RequestAdmitted
        self.emit(kind, name, slot, num_cached, num_cached)

    def _schedule(self, request: Any, count: int, before: int) -> None:
        name, known = request.request_id, request.num_tokens + request.num_output_placeholders
        num_drafts = max(0, before + count - known)
        num_own = count - num_drafts
        is_decode = num_own == 1 and before >= request.num_prompt_tokens
        self.emit(ev.StepScheduled, name, num_own, "decode" if is_decode else "prefill", before)
        if num_drafts:
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
        if num_hits >= (request.num_tokens - 1) // self._scheduler.block_size:
            return "last_block_not_looked_up"
        return "evicted" if short_hash(hashes[num_hits]) in self._evicted else "never_seen"

    # ---- the pool ----

    def after_get_new_blocks(self, blocks: list[Any], num_blocks: int) -> None:
        self._taken += [(ev.BlockAllocated, block.block_id) for block in blocks]

    def before_touch(self, blocks: list[Any]) -> None:
        self._taken += [(ev.BlockHit, block.block_id, block.ref_cnt == 0) for block in blocks]

    def before_free_blocks(self, blocks: list[Any]) -> None:
        """vLLM puts blocks without a hash at the head, as a list, and the others at the tail."""
        self._emit_filled()
        for block in blocks:
            self.emit(ev.BlockReleased, block.block_id, self._freeing)
        last = [block for block in blocks if block.ref_cnt == 1]
        is_cached = [self._pool.enable_caching and block.block_hash is not None for block in last]
        for block, cached in reversed([*zip(last, is_cached, strict=True)]):
            if not cached:
                self.emit(ev.BlockFreed, block.block_id, "head")
        for block, cached in zip(last, is_cached, strict=True):
            if cached:
                self.emit(ev.BlockFreed, block.block_id, "tail")

    def after_cache_full_blocks(
        self, _: None, request: Any, blocks: list[Any], num_cached_blocks: int,
        num_full_blocks: int, *__: Any, **___: Any,
    ) -> None:  # fmt: skip
        hashes = request.block_hashes
        for at in range(num_cached_blocks, num_full_blocks):
            parent = short_hash(hashes[at - 1]) if at else None
            block_id, block_hash = blocks[at].block_id, short_hash(hashes[at])
            self._filled.append((block_id, block_hash, parent, request.request_id))

    def _emit_filled(self) -> None:
        filled, self._filled = self._filled, []
        for block_id, block_hash, *rest in filled:
            self._evicted.pop(block_hash, None)
            self.emit(ev.BlockHashed, block_id, block_hash, *rest)

    def after__remove_cached_block_hashes(self, keys: list[bytes], block: Any) -> None:
        for key in keys:
            if self._pool.cached_block_hash_to_block.get_one_block(key) is None:
                self._evicted[short_hash(key)] = None
                if len(self._evicted) > len(self._pool.blocks):
                    self._evicted.popitem(last=False)
            self.emit(ev.BlockEvicted, block.block_id, short_hash(key))

    def before_reset_prefix_cache(self) -> None:
        blocks = (block for block in self._pool.blocks if block.block_hash is not None)
        self._cached = [(block.block_id, short_hash(block.block_hash)) for block in blocks]

    def after_reset_prefix_cache(self, is_done: bool) -> None:
        for block in self._cached if is_done else ():
            self.emit(ev.BlockEvicted, *block)
        self._end_call()
