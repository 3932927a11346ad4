"""`Updater`: carries out what the drawn tokens of a step change.

    token      append it, turn it into text, check for a stop
    drafts     roll the rejected ones back, then append the final tokens
    end        release the text that was held back, the blocks and the batch slot
    failure    end the request that failed; all others continue

Source: vLLM `vllm/v1/core/sched/scheduler.py` (`update_from_output`).
"""

from dataclasses import dataclass, field

from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import ScheduledDrafts
from minivllm.core.stop import Stop, check_stop
from minivllm.engine.beams import BeamDriver
from minivllm.engine.output_processor import OutputProcessor
from minivllm.engine.requests import Limits
from minivllm.engine.watching.watchers import Watchers
from minivllm.errors import RequestFailedError, SamplingError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.outputs import RequestOutput, SampledToken
from minivllm.runtime.step_result import StepResult
from minivllm.speculation.verify import Drawn, Verified


@dataclass(slots=True)
class DrawnTokens:
    """What a step has drawn, and the requests that have failed in it so far."""

    requests: dict[Request, None]
    """Requests that get an output from this step: failed ones first, then in plan order."""
    errors: dict[Request, RequestFailedError] = field(default_factory=dict)
    """For each failed request, the reason."""
    tokens: list[Drawn] = field(default_factory=list)
    """Sequences and their tokens, or the reason why there is none."""
    verified: list[Verified] = field(default_factory=list)
    """The final tokens of sequences with drafts. These sequences are not in `tokens`."""


class Updater:
    def __init__(
        self,
        scheduler: Scheduler,
        output_processor: OutputProcessor,
        limits: Limits,
        watchers: Watchers,
        bus: EventBus,
    ) -> None:
        self.beams = BeamDriver(scheduler, output_processor, limits, watchers, bus)
        self._scheduler = scheduler
        self._output_processor = output_processor
        self._limits = limits
        self._watchers = watchers
        self._bus = bus

    def update(self, drawn: DrawnTokens, result: StepResult) -> None:
        """Append a step's tokens. End the sequences that end with them, and what has failed."""
        for sequence, token in drawn.tokens:
            if isinstance(token, SamplingError):
                drawn.errors[sequence.request] = token.error_type(str(token))
        for judged in result.prompt_logprobs:
            try:
                self._output_processor.add_prompt_logprobs(judged)
            except RequestFailedError as error:
                request = self._scheduler.requests[judged.seq_id.rpartition(".")[0]]
                drawn.requests[request], drawn.errors[request] = None, error
        self._append_tokens(drawn)
        failures = result.failures
        for sequence in reversed(failures.stranded):
            self._scheduler.requeue(sequence, failures.failed[0])
        for request, error in drawn.errors.items():
            self._fail(request, str(error))
        self._scheduler.kv_cache_manager.evict_unused(failures.unwritten)
        self._watchers.forget_ended(self._scheduler.requests)

    def _append_tokens(self, drawn: DrawnTokens) -> None:
        errors = drawn.errors
        for sequence, token in drawn.tokens:
            request = sequence.request
            if errors and request in errors:
                continue  # another sample of this request failed, so this one stops as well
            try:
                if request.params.use_beam_search:
                    self.beams.offer(sequence, token)
                else:
                    self._append_token(sequence, token)
            except RequestFailedError as error:
                errors[request] = error
        for item, rows in drawn.verified:
            request = item.sequence.request
            if request not in errors:
                try:
                    self._append_verified(item, [token for _, token in rows])
                except RequestFailedError as error:
                    errors[request] = error

    def _append_verified(self, item: ScheduledDrafts, tokens: list[SampledToken]) -> None:
        """Roll rejected drafts back, then append the final tokens until one ends the sequence."""
        self._scheduler.settle_draft(item, len(tokens) - 1, tokens[-1].token_id)
        for token in tokens:
            self._append_token(item.sequence, token)
            if item.sequence.status.is_finished:
                break

    def _append_token(self, sequence: Sequence, sampled: SampledToken) -> None:
        """Append a new token and emit it with its text. End the sequence if it must stop."""
        sequence.append_token(sampled.token_id)
        limits = self._limits
        stop = check_stop(sequence, limits.eos_token_ids, limits.max_model_len)
        new = self._output_processor.append(sequence, sampled, watched=self._bus.active)
        if new.stop is not None:
            stop = Stop(RequestStatus.FINISHED_STOPPED, new.stop)
        self._scheduler.counters.generation_tokens += 1
        if self._bus.active:
            self._watchers.names.name((sampled.token_id,))
            logprob = sampled.logprobs[sampled.token_id].logprob if sampled.logprobs else None
            self._bus.emit(ev.TokenSampled, sequence.seq_id, sampled.token_id, new.text, logprob)
        if stop is not None:
            self._finish(sequence, stop, flush=new.stop is None)

    # ---- the end of a sequence ----

    def abort(self, request: Request, error: str | None = None) -> None:
        """End an unfinished request and all its sequences. If it failed, `error` is the reason."""
        stop = Stop(RequestStatus.FINISHED_ABORTED, error)
        for sequence in list(request.sequences):
            if not sequence.status.is_finished:
                try:
                    self._finish(sequence, stop, flush=error is None)
                # The held-back text is lost, but the request is gone, so no reader needs it.
                except RequestFailedError:
                    self._finish(sequence, stop, flush=False)
        self.beams.forget(request)
        self._watchers.forget_ended(self._scheduler.requests)

    def _finish(self, sequence: Sequence, stop: Stop, flush: bool) -> None:
        """End a sequence.

        flush: first emit the text that was held back.
        """
        if flush:
            last = self._output_processor.flush(sequence)
            if last.text and self._bus.active:
                self._bus.emit(ev.TextFlushed, sequence.seq_id, last.text)
            if last.stop is not None and stop.status is not RequestStatus.FINISHED_ABORTED:
                stop = Stop(RequestStatus.FINISHED_STOPPED, last.stop)
        self._scheduler.finish(sequence, stop.status, stop.stop_reason)

    def _fail(self, request: Request, error: str) -> None:
        """End a request that cannot continue. All other requests continue.

        The request's keys and values may be NaN, so its blocks leave the prefix cache. A block with
        other owners keeps its hash. If the block has NaN, these owners fail too, and when the last
        owner fails, the block is evicted.
        """
        blocks = [block for sequence in request.sequences for block in sequence.block_table]
        self.abort(request, error)
        self._scheduler.kv_cache_manager.evict_unused(blocks)

    def make_outputs(self, drawn: DrawnTokens) -> list[RequestOutput]:
        """Return the outputs of the step's requests. A request that failed has its error."""
        outputs = self._output_processor.make_outputs(drawn.requests)
        if drawn.errors:
            errors = {request.request_id: error for request, error in drawn.errors.items()}
            for output in outputs:
                if (error := errors.get(output.request_id)) is not None:
                    output.error, output.error_type = str(error), type(error)
        return outputs
