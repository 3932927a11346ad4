"""`Stepper`: runs one step of the engine, phase by phase.

    schedule   plan how many tokens each sequence gets, and allocate their blocks
    execute    run the planned tokens through the model
    sample     draw a token for each sequence whose last token was computed: append the token,
               detokenize it, check for a stop

A step is a generator that pauses between phases. `LLMEngine.step()` runs the generator to its end,
and `step_phase()` to the next pause.

Between phases a request may be queued, but no block may be freed: the planned blocks are already
registered in the prefix cache, and other sequences of the plan may read them. An abort therefore
waits for the end of the step.

An error in one sequence (the model raises, logits are NaN, a token has no text) fails only the
request of that sequence. If a phase itself raises, the engine cannot continue.
"""

from collections.abc import Generator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from minivllm.clock import Clock
from minivllm.core.invariants import check_invariants
from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import ScheduledDrafts, SchedulerOutput
from minivllm.core.stop import Stop, check_stop
from minivllm.engine.beams import BeamDriver
from minivllm.engine.isolation import Executed, IsolatingExecutor
from minivllm.engine.output_processor import OutputProcessor
from minivllm.engine.requests import Limits
from minivllm.engine.runner import Runner
from minivllm.engine.watching.kernel_tracing import AttentionRecorder, KernelTracer
from minivllm.engine.watching.token_explaining import TokenExplainer
from minivllm.engine.watching.token_names import TokenNames
from minivllm.errors import InvariantError, RequestFailedError, SamplingError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.outputs import RequestOutput, SampledToken
from minivllm.runtime.step_result import Watch
from minivllm.speculation.verify import Verified, verify


@dataclass(slots=True)
class PhaseSeconds:
    """How long the phases of one step took. Time between two phases is not included."""

    schedule: float = 0.0
    prepare: float = 0.0
    model: float = 0.0


class Drawn(NamedTuple):
    """The sampled tokens of a step, and the requests that have failed so far in the step."""

    tokens: list[tuple[Sequence, SampledToken | SamplingError]]
    requests: dict[Request, None]
    """Requests that get an output from this step, in the order of the plan."""
    errors: dict[Request, RequestFailedError]
    """For each failed request, the reason."""
    verified: list[Verified]
    """The final tokens of sequences with drafts. These sequences are not in `tokens`."""


class Stepper:
    """Owns the parts that a step needs and runs steps. Do not use it after a phase has raised."""

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        output_processor: OutputProcessor,
        limits: Limits,
        *,
        check_invariants: bool,
        explain_tokens: bool,
        clock: Clock,
        bus: EventBus,
    ) -> None:
        self.runner = runner
        self.scheduler = scheduler
        self.output_processor = output_processor
        self.names = TokenNames(output_processor.decoder, scheduler.requests, bus)
        self.explainer = TokenExplainer(self.names, bus, explain_all=explain_tokens)
        self.beams = BeamDriver(
            scheduler, output_processor, limits, self.names, bus, self.explainer
        )
        self.tracer = KernelTracer(bus)
        self.clock = clock
        self.bus = bus
        self.next_phase: ev.Phase = "schedule"
        self.last_plan: SchedulerOutput | None = None
        self.attention = AttentionRecorder(bus)
        self._executor = IsolatingExecutor(runner, scheduler.kv_cache_manager.block_size)
        self._limits = limits
        self._checks_invariants = check_invariants
        self._previews = False
        self._step: Generator[ev.Phase, None, list[RequestOutput]] | None = None

    # ---- one step ----

    def run_phase(self, *, previews: bool = False) -> list[RequestOutput] | None:
        """Run the next phase. Returns the outputs if the step ends with this phase, else None.

        previews: show the candidates of watched sequences before the phase `sample`
        """
        self._previews = previews
        if self._step is None:
            self._step = self._run_step()
        try:
            self.next_phase = next(self._step)
            return None
        except StopIteration as end:
            self._step, self.next_phase = None, "schedule"
            return end.value

    def _run_step(self) -> Generator[ev.Phase, None, list[RequestOutput]]:
        """Run one step; each pause yields the name of the next phase."""
        seconds = PhaseSeconds()
        plan = self._schedule(seconds)
        if not plan.scheduled:
            return self._end_idle_step(seconds)
        yield "execute"
        executed = self._execute(plan, seconds)
        if self._previews and self.explainer.active:
            self._preview(executed)
        yield "sample"
        return self._sample(plan, executed, seconds)

    def _schedule(self, seconds: PhaseSeconds) -> SchedulerOutput:
        started = self.clock.now()
        plan = self.last_plan = self.scheduler.schedule(started)
        seconds.schedule = self.clock.now() - started
        for item in plan.scheduled:
            for sample in item.sampling[1:]:  # just forked
                self.output_processor.add_sequence(sample)
        if self._checks_invariants:
            self._check_invariants(plan)
        return plan

    def _execute(self, plan: SchedulerOutput, seconds: PhaseSeconds) -> Executed:
        """Run the planned tokens through the model; emit watched attention and kernel traces."""
        watch = Watch(self.tracer.decodes_to_watch(plan), *self.attention.watch(plan))
        started = self.clock.now()
        executed = self._executor.execute(plan, watch)
        seconds.prepare = executed.t_prepare
        seconds.model = self.clock.now() - started - seconds.prepare
        for part in executed.parts:
            if watch.attention_mass:
                self.attention.emit(part.plan, part.result)
            # A plan that was run in pieces has no samples; the tracer asks again in the next step.
            for index, sample in zip(watch.decodes, part.result.decode_samples, strict=False):
                self.tracer.trace(part.plan.scheduled[index].sequence.seq_id, sample)
        return executed

    def _sample(
        self, plan: SchedulerOutput, executed: Executed, seconds: PhaseSeconds
    ) -> list[RequestOutput]:
        started = self.clock.now()
        drawn = self._draw(executed)
        if self.explainer.active:
            final = [row for one in drawn.verified for row in one.rows]
            self.explainer.explain(drawn.tokens + final)
        self._add_prompt_logprobs(executed, drawn)
        self._append_tokens(drawn)
        self._settle_failures(executed, drawn)
        self.tracer.forget_ended(self.scheduler.requests)
        if self.bus.active:
            times = seconds.schedule, seconds.prepare, seconds.model, self.clock.now() - started
            self.bus.emit(ev.StepEnd, plan.total_num_scheduled_tokens, *times)
        if self._checks_invariants:
            self._check_invariants(None)
        self.clock.end_step()
        return self._make_outputs(drawn)

    def _end_idle_step(self, seconds: PhaseSeconds) -> list[RequestOutput]:
        """End a step in which every request waits for more arrivals (`batch_delay`)."""
        if self.bus.active:
            self.bus.emit(ev.StepEnd, 0, seconds.schedule, 0.0, 0.0, 0.0)
        self.clock.idle()
        self.clock.end_step()
        return []

    def _preview(self, executed: Executed) -> None:
        """Emit the candidates of watched sequences. A draw has no state, so it can run twice."""
        for part in executed.parts:
            sequences = part.plan.sampling_sequences()
            watched = self.explainer.watched(sequences)
            # Rows after drafts may mean nothing, so preview only the sequences' own rows.
            rows = [
                row
                for row, sequence in enumerate(sequences)
                if isinstance(sequence, Sequence) and sequence in watched
            ]
            if rows:
                own = [sequences[row] for row in rows]
                drawn = self.runner.sample_tokens(own, part.result.logits[rows], watched)
                self.explainer.preview(list(zip(own, drawn, strict=True)))

    # ---- the sample phase ----

    def _draw(self, executed: Executed) -> Drawn:
        """Draw the tokens. Record an error for each sequence on which model or sampler failed."""
        # A GPU is still computing the logits, so first do the work that needs no tokens.
        sampling = [part.plan.sampling_sequences() for part in executed.parts]
        requests = dict.fromkeys(
            [sequence.request for sequence in chain(executed.failed, *sampling)]
        )
        tokens: list[tuple[Sequence, SampledToken | SamplingError]] = []
        verified: list[Verified] = []
        for part, sequences in zip(executed.parts, sampling, strict=True):
            # Without a watch, runners of tests and exercises need no third argument.
            watched = (self.explainer.watched(sequences),) if self.explainer.active else ()
            sampled = self.runner.sample_tokens(sequences, part.result.logits, *watched)
            drawn = zip(sequences, sampled, strict=True)
            if part.plan.num_draft_tokens:
                drawn, final = verify(part.plan, list(drawn))
                verified += final
            tokens += drawn
        errors = {
            sequence.request: token.error_type(str(token))
            for sequence, token in tokens
            if isinstance(token, SamplingError)
        }
        errors |= {
            sequence.request: RequestFailedError(f"The model failed on {sequence.seq_id}.")
            for sequence in executed.failed
        }
        return Drawn(tokens, requests, errors, verified)

    def _add_prompt_logprobs(self, executed: Executed, drawn: Drawn) -> None:
        for part in executed.parts:
            if not part.result.prompt_logprobs:
                continue
            requests = {item.sequence.seq_id: item.sequence.request for item in part.plan.scheduled}
            for judged in part.result.prompt_logprobs:
                try:
                    self.output_processor.add_prompt_logprobs(judged)
                except RequestFailedError as error:
                    request = requests[judged.seq_id]
                    drawn.requests[request], drawn.errors[request] = None, error

    def _append_tokens(self, drawn: Drawn) -> None:
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
        self.scheduler.settle_draft(item, len(tokens) - 1, tokens[-1].token_id)
        for token in tokens:
            self._append_token(item.sequence, token)
            if item.sequence.status.is_finished:
                break

    def _append_token(self, sequence: Sequence, sampled: SampledToken) -> None:
        """Append a new token and emit it with its text. End the sequence if it must stop."""
        sequence.append_token(sampled.token_id)
        limits = self._limits
        stop = check_stop(sequence, limits.eos_token_ids, limits.max_model_len)
        new = self.output_processor.append(sequence, sampled, watched=self.bus.active)
        if new.stop_string is not None:
            stop = Stop(RequestStatus.FINISHED_STOPPED, new.stop_string)
        self.scheduler.counters.generation_tokens += 1
        if self.bus.active:
            self.names.name((sampled.token_id,))
            logprob = sampled.logprobs[sampled.token_id].logprob if sampled.logprobs else None
            self.bus.emit(ev.TokenSampled, sequence.seq_id, sampled.token_id, new.text, logprob)
        if stop is not None:
            self._finish(sequence, stop, flush=new.stop_string is None)

    def _settle_failures(self, executed: Executed, drawn: Drawn) -> None:
        """Preempt stranded sequences, end failed requests, and drop unwritten blocks from the
        prefix cache.
        """
        for sequence in reversed(executed.stranded):
            self.scheduler.requeue(sequence, executed.failed[0])
        for request, error in drawn.errors.items():
            self._fail(request, str(error))
        self.scheduler.kv_cache_manager.evict_unused(executed.unwritten)

    def _make_outputs(self, drawn: Drawn) -> list[RequestOutput]:
        outputs = self.output_processor.make_outputs(drawn.requests)
        if drawn.errors:
            errors = {request.request_id: error for request, error in drawn.errors.items()}
            for output in outputs:
                if (error := errors.get(output.request_id)) is not None:
                    output.error, output.error_type = str(error), type(error)
        return outputs

    # ---- requests in and out ----

    def add(self, request: Request) -> None:
        self.output_processor.add_sequence(request.sequences[0])
        if request.params.use_beam_search:
            self.beams.start(request)
        if self.bus.active:
            self.names.name(request.prompt_token_ids)
        self.scheduler.add_request(request)

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
        self.tracer.forget_ended(self.scheduler.requests)

    def _finish(self, sequence: Sequence, stop: Stop, flush: bool) -> None:
        """End a sequence.

        flush: first emit the text that was held back.
        """
        if flush:
            last = self.output_processor.flush(sequence)
            if last.text and self.bus.active:
                self.bus.emit(ev.TextFlushed, sequence.seq_id, last.text)
            if last.stop_string is not None and stop.status is not RequestStatus.FINISHED_ABORTED:
                stop = Stop(RequestStatus.FINISHED_STOPPED, last.stop_string)
        self.scheduler.finish(sequence, stop.status, stop.stop_reason)

    def _fail(self, request: Request, error: str) -> None:
        """End a request that cannot continue. All other requests continue.

        The request's keys and values may be NaN, so its blocks leave the prefix cache. A block with
        other owners keeps its hash. If the block has NaN, these owners fail too, and when the last
        owner fails, the block is evicted.
        """
        blocks = [block for sequence in request.sequences for block in sequence.block_table]
        self.abort(request, error)
        self.scheduler.kv_cache_manager.evict_unused(blocks)

    def _check_invariants(self, plan: SchedulerOutput | None) -> None:
        violations = check_invariants(self.scheduler, plan)
        for violation in violations:
            self.scheduler.counters.invariant_violations += 1
            if self.bus.active:
                self.bus.emit(ev.InvariantViolated, violation.name, violation.detail)
        if violations:
            raise InvariantError("; ".join(f"{name}: {detail}" for name, detail in violations))
