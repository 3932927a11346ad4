"""`EngineCore`: owns the parts of one engine and runs its steps.

The first step of a request, `the cat sat`:

    schedule   The scheduler takes it from the queue and plans its 3 tokens. It gives its sequence a
               slot of the batch and a block of the KV cache, and counts the tokens as computed.
    execute    The model computes the 3 tokens, in one pass with those of other sequences. It writes
               their keys and values into the block. The logits of the last token predict the next.
    sample     The sampler draws `on` from these logits. The updater appends it to the sequence,
               checks whether it ends the request, and decodes its text (now, or when it ends).

Now the sequence is one token behind, so the next step computes `on` alone and draws the token after
it, until one ends the request. Then its slot and blocks are free again.

On a first reading, skip drafts, beams, watchers, errors, the connector (a second memory), and the
bus, which takes events away. Then read `core/request.py` (what a sequence is), `block_pool.py`,
`kv_cache_manager.py` and `scheduler.py`, and for errors `engine/runner.py`.

Between phases a request may be queued, but no block may be freed, because other sequences of the
plan may read it. An error in one sequence (the model raises, logits are NaN, a token has no text)
fails only the requests that it hits.

Source: vLLM `vllm/v1/engine/core.py` (`step`), `core/sched/scheduler.py` (`update_from_output`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from minivllm import kv_transfer, runtime, speculation
from minivllm.clock import Clock
from minivllm.config import EngineConfig
from minivllm.core.admission import RequestQueue
from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.contiguous import create_kv_cache_manager
from minivllm.core.invariants import check_invariants
from minivllm.core.request import Request, RequestStatus, Sequence, Stop, check_stop
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import NO_DRAFTS, SchedulerOutput
from minivllm.engine.beams import BeamDriver
from minivllm.engine.output_processor import OutputProcessor
from minivllm.engine.runner import IsolatingRunner, Runner
from minivllm.engine.watchers import TokenNames, Watchers
from minivllm.errors import InvariantError, RequestFailedError, SamplingError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.outputs import RequestOutput, SampledToken
from minivllm.runtime.step_result import StepResult
from minivllm.speculation.verify import Drawn, Verified, verify

Errors = dict[Request, RequestFailedError]
"""The requests that fail in a step, and why."""


class EngineCore:
    """One engine, made of the arguments of `LLMEngine`. Do not use it after a phase has raised."""

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        tokenizer: runtime.Tokenizer,
        clock: Clock,
        proposer: speculation.Proposer | None,
        waiting: RequestQueue | None,
    ) -> None:
        self.clock, self.bus = clock, EventBus(clock)
        self.names = TokenNames(tokenizer, self.bus)
        self.watchers = Watchers(self.names, self.bus, explain_all=config.explain_tokens)
        self.runner = IsolatingRunner(runner, config.block_size, self.watchers.explainer)
        limit, name = runner.max_model_len, self.names.name
        config.check_whole_prompts_fit(limit, config.max_num_batched_tokens)
        manager = create_kv_cache_manager(config, runner.num_blocks, limit, self.bus)
        drafter, drafts = NO_DRAFTS, config.speculative_config
        if drafts is not None:
            drafter = speculation.SpeculativeDrafter(
                drafts, proposer, manager, limit, self.bus, name
            )
        self.scheduler = Scheduler(config, manager, limit, self.bus, drafter, waiting)
        if config.kv_transfer_config is not None:
            parts = config, runner, self.scheduler, clock, self.bus
            self.scheduler.connector = kv_transfer.create_connector(*parts)
        self.output_processor = OutputProcessor(tokenizer)
        shared = self.scheduler, self.output_processor, tokenizer.eos_token_ids, self.names
        self.beams = BeamDriver(*shared, self.watchers.explainer, self.bus)
        self.updater = RequestUpdater(*shared, self.watchers, self.bus, self.beams)
        self.last_plan: SchedulerOutput | None = None
        self._checks_invariants = config.check_invariants
        self._seconds = (0.0, 0.0, 0.0)

    def step(self) -> list[RequestOutput]:
        """Run one step. Returns outputs of requests that got a token (see `output_kind`) or failed."""
        plan = self.schedule()
        result = self.execute(plan)
        return self.sample(plan, result)

    def schedule(self) -> SchedulerOutput:
        """Decide how many tokens of each sequence go through the model, and give them blocks."""
        started = self.clock.now()
        plan = self.last_plan = self.scheduler.schedule(started)
        self._seconds = (self.clock.now() - started, 0.0, 0.0)
        for item in plan.scheduled:
            for sample in item.sampling[1:]:  # forks of a prompt that ends here
                self.output_processor.add_sequence(sample)
        self._check_invariants(plan)
        return plan

    def execute(self, plan: SchedulerOutput) -> StepResult:
        """Run the planned tokens through the model. The result has the logits to draw from."""
        if self.scheduler.connector is not None:
            self.scheduler.connector.start_load_kv(plan)
        if not plan.scheduled:
            return StepResult(plan, None)  # all requests wait: for others (`batch_delay`) or blocks
        watch = self.watchers.before(plan)
        started = self.clock.now()
        if plan.copies:
            self.runner.copy_blocks(plan.copies)
        result = self.runner.execute_model(plan, watch)
        seconds = self.clock.now() - started - result.t_prepare
        self._seconds = (self._seconds[0], result.t_prepare, seconds)
        self.watchers.after(watch, result)
        return result

    def sample(self, plan: SchedulerOutput, result: StepResult) -> list[RequestOutput]:
        """Draw a token for each sequence whose last token has run; append it; end what must stop.

        `result.plan` has what really ran, which is less than `plan` if the model raised.
        """
        started = self.clock.now()
        # Prepare these lists first: `_draw` waits until a GPU has computed the logits.
        rows = result.plan.sampling_sequences()
        requests = dict.fromkeys([sequence.request for sequence in rows])  # in order, once each
        tokens, verified = self._draw(rows, result)
        self.watchers.drawn(tokens, verified)
        errors = self.updater.update(tokens, verified, result)
        if self.bus.active:
            seconds = (*self._seconds, self.clock.now() - started)
            self.bus.emit(ev.StepEnd, plan.total_num_scheduled_tokens, *seconds)
        self._check_invariants(None)
        if not plan.scheduled:
            self.clock.idle()
        self.clock.num_steps += 1
        return self.output_processor.make_outputs(requests | errors, errors)

    def _draw(self, rows: list[Sequence], result: StepResult) -> tuple[list[Drawn], list[Verified]]:
        """Draw a token or a `SamplingError` for each row of the logits, and verify drafts."""
        drawn = self.runner.sample_tokens(rows, result.logits) if rows else ()
        tokens = list(zip(rows, drawn, strict=True))
        return verify(result.plan, tokens) if result.plan.num_draft_tokens else (tokens, [])

    def _check_invariants(self, plan: SchedulerOutput | None) -> None:
        violations = check_invariants(self.scheduler, plan) if self._checks_invariants else ()
        for violation in violations:
            self.scheduler.counters.invariant_violations += 1
            if self.bus.active:
                self.bus.emit(ev.InvariantViolated, violation.name, violation.detail)
        if violations:
            raise InvariantError("; ".join(f"{name}: {detail}" for name, detail in violations))

    def add_request(self, request: Request) -> None:
        """Queue a request that has been checked."""
        self.output_processor.add_sequence(request.sequences[0])
        if request.params.use_beam_search:
            self.beams.start(request)
        if self.bus.active:
            self.names.name(request.prompt_token_ids)
        self.scheduler.add_request(request)

    def abort_request(self, request: Request) -> RequestOutput:
        """End an unfinished request between two steps. Returns its output so far."""
        self.updater.abort(request)
        return self.output_processor.make_output(request)


@dataclass(slots=True)
class RequestUpdater:
    """Carries a step's tokens into the requests: appends them, and ends what must stop or fails."""

    scheduler: Scheduler
    output_processor: OutputProcessor
    eos_token_ids: frozenset[int]
    names: TokenNames
    watchers: Watchers
    bus: EventBus
    beams: BeamDriver

    def update(self, tokens: list[Drawn], verified: list[Verified], result: StepResult) -> Errors:
        """Append a step's tokens. Returns the requests that failed, which end."""
        failed = [item for item in tokens if isinstance(item[1], SamplingError)]
        errors = {sequence.request: error.error_type(str(error)) for sequence, error in failed}
        errors |= result.errors
        self._store_prompt_logprobs(result, errors)
        for sequence, token in tokens:
            request = sequence.request
            if errors and request in errors:
                continue
            try:
                if request.params.use_beam_search:
                    self.beams.offer(sequence, token)
                else:
                    self._append(sequence, token)
            except RequestFailedError as error:
                errors[request] = error
        for item, rows in verified:
            sequence = item.sequence
            if sequence.request in errors:
                continue
            self.scheduler.settle_draft(item, len(rows) - 1, rows[-1][1].token_id)
            try:
                for _, token in rows:
                    if not sequence.is_finished:
                        self._append(sequence, token)
            except RequestFailedError as error:
                errors[sequence.request] = error
        self._end_failed(errors, result)
        self.watchers.forget_ended()
        return errors

    def _store_prompt_logprobs(self, result: StepResult, errors: Errors) -> None:
        for entry in result.prompt_logprobs:
            try:
                self.output_processor.add_prompt_logprobs(entry)
            except RequestFailedError as error:
                errors[self.scheduler.requests[entry.seq_id.rpartition(".")[0]]] = error

    def _append(self, sequence: Sequence, sampled: SampledToken) -> None:
        """Append a new token and emit it with its text. End the sequence if it must stop."""
        sequence.append_token(sampled.token_id)
        stop = check_stop(sequence, self.eos_token_ids, self.scheduler.max_model_len)
        new = self.output_processor.append(sequence, sampled, watched=self.bus.active)
        if new.stop is not None:
            stop = Stop(RequestStatus.FINISHED_STOPPED, new.stop)
        self.scheduler.counters.generation_tokens += 1
        if self.bus.active:
            self.names.name((sampled.token_id,))
            logprob = sampled.logprobs[sampled.token_id].logprob if sampled.logprobs else None
            self.bus.emit(ev.TokenSampled, sequence.seq_id, sampled.token_id, new.text, logprob)
        if stop is not None:
            self._finish(sequence, stop, flush=new.stop is None)

    def _finish(self, sequence: Sequence, stop: Stop, flush: bool) -> None:
        """End a sequence. `flush`: first emit the text that was held back."""
        if flush:
            last = self.output_processor.flush(sequence)
            if last.text and self.bus.active:
                self.bus.emit(ev.TextFlushed, sequence.seq_id, last.text)
            if last.stop is not None and stop.status is not RequestStatus.FINISHED_ABORTED:
                stop = Stop(RequestStatus.FINISHED_STOPPED, last.stop)
        self.scheduler.finish(sequence, stop.status, stop.stop_reason)

    # ---- what ends a request before its time ----

    def abort(self, request: Request, error: str | None = None) -> None:
        """End an unfinished request and all its sequences.

        `error`: why it failed, if it did. Then its keys and values may be NaN, so its blocks leave
        the prefix cache. Other owners of a block with NaN fail when they sample, and the last to
        end evicts it.
        """
        stop = Stop(RequestStatus.FINISHED_ABORTED, error)
        blocks = [block for sequence in request.sequences for block in sequence.block_table]
        for sequence in list(request.sequences):
            if not sequence.is_finished:
                try:
                    self._finish(sequence, stop, flush=error is None)
                # The held-back text is lost, but the request is gone, so no reader needs it.
                except RequestFailedError:
                    self._finish(sequence, stop, flush=False)
        self.beams.forget(request)
        self.watchers.forget_ended()
        if error is not None:
            self._evict(blocks)

    def _end_failed(self, errors: Errors, result: StepResult) -> None:
        """Abort these requests. Sequences that read what they did not write are computed again."""
        for stranded in result.stranded:
            self.scheduler.requeue(*stranded)
        for request, error in errors.items():
            self.abort(request, str(error))
        self._evict(result.unwritten)

    def _evict(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Let no lookup find `blocks`, of requests that have failed."""
        if self.scheduler.connector is not None:
            self.scheduler.connector.invalidate(blocks)
        self.scheduler.kv_cache_manager.evict_unused(blocks)
