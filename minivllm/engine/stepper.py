"""`Stepper`: carries out one step of the engine, phase by phase.

    schedule   plan who gets how many tokens; from here on memory is given out
    execute    the plan's tokens go through the model
    sample     one token for each sequence that reached its end: append, detokenize, stop; the step is over

There is one step, a generator that stops between two phases. `LLMEngine.step()` runs it through, and
`step_phase()` runs it up to its next stop. It decides nothing about memory (the scheduler does) and computes
nothing (the runner does).

The easy thing to get wrong is what may happen between two phases. The plan counts tokens as computed and names
their blocks in the prefix cache before anybody has written them, and another sequence of the same plan may read
them. So what takes blocks away (an abort) has to wait for the end of the step; a new arrival only queues.

What goes wrong for one sequence alone (the model raises, see `minivllm.engine.isolation`; logits that are no numbers, a token that
has no text) ends its request with an error, and nobody else's. A phase that raises leaves half a step behind, and the
engine is dead.
"""

from __future__ import annotations

from collections.abc import Generator
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, Protocol

from minivllm.clock import Clock
from minivllm.core.invariants import check_invariants
from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.core.stop import Stop, check_stop
from minivllm.engine.beams import BeamDriver
from minivllm.engine.isolation import IsolatingExecutor
from minivllm.engine.kernel_tracing import KernelTracer
from minivllm.engine.output_processor import OutputProcessor
from minivllm.errors import InvariantError, RequestFailedError, SamplingError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.outputs import PromptTokenLogprob, RequestOutput, SampledToken

if TYPE_CHECKING:
    from minivllm.runtime.attention.xray import DecodeSample


class Runner(Protocol):
    """What the engine asks of `minivllm.runtime.model_runner.ModelRunner`, or of a test's stand-in."""

    num_blocks: int
    max_model_len: int
    t_prepare: float
    """Seconds that the last `execute_model` spent on building the batch."""
    prompt_logprobs: Seq[PromptTokenLogprob]
    """Of the last `execute_model`: what the model thought of tokens of prompts, where that was asked for."""
    record_attention_mass: bool
    attention_mass: list[list[float]]
    """If recorded: of each sequence of the last plan, the share of attention on each of its blocks."""
    watched_decodes: list[int]
    """Indices into the next plan: decodes of which `execute_model` keeps what a kernel of one layer reads."""
    decode_samples: list[DecodeSample]
    """Of the last `execute_model`, in the order of `watched_decodes`."""

    def execute_model(self, plan: SchedulerOutput) -> Any:
        """Run the plan's tokens through the model; the logits of the sequences that sample.

        If it raises, it may be called again with parts of the plan: what it writes is the same each time.
        """

    def device_works(self) -> bool:
        """Whether there is any use in calling `execute_model` again after it has raised."""

    def sample_tokens(self, plan: SchedulerOutput, logits: Any) -> Seq[SampledToken | SamplingError]:
        """One token for each scheduled sequence that samples, in the plan's order, or why there is none."""


class Stepper:
    """Moves one engine on. Not to be used after a phase has raised."""

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        output_processor: OutputProcessor,
        beams: BeamDriver,
        *,
        eos_token_ids: frozenset[int],
        max_model_len: int,
        check_invariants: bool,
        clock: Clock,
        bus: EventBus,
    ) -> None:
        self.next_phase: ev.Phase = "schedule"
        self.last_plan: SchedulerOutput | None = None
        self.tracer = KernelTracer(runner, bus)
        self.tells_attention_mass = False
        self._runner = runner
        self._executor = IsolatingExecutor(runner, scheduler.kv_cache_manager.block_size)
        self._scheduler = scheduler
        self._output_processor = output_processor
        self._beams = beams
        self._eos_token_ids = eos_token_ids
        self._max_model_len = max_model_len
        self._checks_invariants = check_invariants
        self._clock = clock
        self._bus = bus
        self._step: Generator[ev.Phase, None, list[RequestOutput]] | None = None

    def run_phase(self) -> list[RequestOutput] | None:
        """Run the next phase: the step's outputs if the step has ended with it, else None."""
        if self._step is None:
            self._step = self._run_step()
        try:
            self.next_phase = next(self._step)
            return None
        except StopIteration as end:
            self._step, self.next_phase = None, "schedule"
            return end.value

    def _run_step(self) -> Generator[ev.Phase, None, list[RequestOutput]]:
        """One step; yields the name of the phase that comes next, and each phase's time counts for itself."""
        now = self._clock.now
        started = now()
        plan = self.last_plan = self._scheduler.schedule(started)
        t_schedule = now() - started
        for item in plan.scheduled:
            for sample in item.sampling[1:]:  # just forked
                self._output_processor.add_sequence(sample)
        if self._checks_invariants:
            self._check_invariants(plan)
        if not plan.scheduled:
            return self._end_idle_step(t_schedule)

        yield "execute"
        self.tracer.watch(plan)
        started = now()
        executed = self._executor.execute(plan)
        t_model = now() - started - executed.t_prepare
        if self.tells_attention_mass and self._bus.active:
            for sequence, mass in executed.attention_mass:
                self._bus.emit(ev.AttentionMass, sequence.seq_id, mass)
        self.tracer.tell()

        yield "sample"
        started = now()
        # A GPU is still at work here, so what needs no token yet comes before the wait for them.
        sampling = [sequence for part, _ in executed.parts for item in part.scheduled for sequence in item.sampling]
        touched = {one.request.request_id: one.request for one in [*executed.failed, *sampling]}
        tokens = [token for part, logits in executed.parts for token in self._runner.sample_tokens(part, logits)]
        drawn = list(zip(sampling, tokens, strict=True))
        failed = {one.request.request_id: str(token) for one, token in drawn if isinstance(token, SamplingError)}
        failed |= {one.request.request_id: f"The model failed on {one.seq_id}." for one in executed.failed}
        if executed.prompt_logprobs:
            judged_requests = {item.sequence.seq_id: item.sequence.request for item in plan.scheduled}
            for judged in executed.prompt_logprobs:
                try:
                    self._output_processor.add_prompt_logprobs(judged)
                except RequestFailedError as error:
                    request = judged_requests[judged.seq_id]
                    touched[request.request_id], failed[request.request_id] = request, str(error)
        for sequence, token in drawn:
            request = sequence.request
            if failed and request.request_id in failed:
                continue  # its other samples get no more, either
            try:
                if request.params.use_beam_search:
                    self._beams.offer(sequence, token)
                else:
                    self._append_token(sequence, token)
            except RequestFailedError as error:
                failed[request.request_id] = str(error)
        for sequence in reversed(executed.stranded):
            self._scheduler.requeue(sequence, executed.failed[0])
        for request_id, error in failed.items():
            self._fail(touched[request_id], error)
        self._scheduler.kv_cache_manager.evict_unused(executed.unwritten)
        self.tracer.forget_ended(self._scheduler.requests)
        if self._bus.active:
            used, t_prepare = plan.total_num_scheduled_tokens, executed.t_prepare
            self._bus.emit(ev.StepEnd, used, t_schedule, t_prepare, t_model, now() - started)
        if self._checks_invariants:
            self._check_invariants(None)
        self._clock.end_step()
        outputs = self._output_processor.make_outputs(touched.values())
        for output in outputs:
            output.error = failed.get(output.request_id)
        return outputs

    def _end_idle_step(self, t_schedule: float) -> list[RequestOutput]:
        """End a step in which all wait for company (`batch_delay`): time has to pass."""
        if self._bus.active:
            self._bus.emit(ev.StepEnd, 0, t_schedule, 0.0, 0.0, 0.0)
        self._clock.idle()
        self._clock.end_step()
        return []

    def _append_token(self, sequence: Sequence, sampled: SampledToken) -> None:
        """Give a sequence its new token, show what text became visible, and end it if it has to end."""
        sequence.append_token(sampled.token_id)
        stop = check_stop(sequence, self._eos_token_ids, self._max_model_len)
        new = self._output_processor.append(sequence, sampled, watched=self._bus.active)
        if new.stop_string is not None:
            stop = Stop(RequestStatus.FINISHED_STOPPED, new.stop_string)
        self._scheduler.counters.generation_tokens += 1
        if self._bus.active:
            logprob = sampled.logprobs[sampled.token_id].logprob if sampled.logprobs else None
            self._bus.emit(ev.TokenSampled, sequence.seq_id, sampled.token_id, new.text, logprob)
        if stop is not None:
            self.finish(sequence, stop, flush=new.stop_string is None)

    def finish(self, sequence: Sequence, stop: Stop, flush: bool = True) -> None:
        """End a sequence. Text that was held back is shown, unless it belongs to a stop string."""
        if flush:
            last = self._output_processor.flush(sequence)
            if last.text and self._bus.active:
                self._bus.emit(ev.TextFlushed, sequence.seq_id, last.text)
            if last.stop_string is not None and stop.status is not RequestStatus.FINISHED_ABORTED:
                stop = Stop(RequestStatus.FINISHED_STOPPED, last.stop_string)
        self._scheduler.finish(sequence, stop.status, stop.stop_reason)

    def abort(self, request: Request, error: str | None = None) -> None:
        """End a request that is not finished, with all its sequences; `error` if it failed."""
        stop = Stop(RequestStatus.FINISHED_ABORTED, error)
        for sequence in list(request.sequences):
            if not sequence.status.is_finished:
                try:
                    self.finish(sequence, stop, flush=error is None)
                except RequestFailedError:  # the text that was held back is lost, and nobody waits for it
                    self.finish(sequence, stop, flush=False)
        self._beams.forget(request)
        self.tracer.forget_ended(self._scheduler.requests)

    def _fail(self, request: Request, error: str) -> None:
        """One request cannot go on; the others can.

        What the model wrote for it may be NaN, and must not be found again. A block that somebody else uses keeps its
        name: if it is bad, they fail as well, and the last of them takes it away.
        """
        blocks = [block for sequence in request.sequences for block in sequence.block_table]
        self.abort(request, error)
        self._scheduler.kv_cache_manager.evict_unused(blocks)

    def _check_invariants(self, plan: SchedulerOutput | None) -> None:
        violations = check_invariants(self._scheduler, plan)
        for violation in violations:
            self._scheduler.counters.invariant_violations += 1
            if self._bus.active:
                self._bus.emit(ev.InvariantViolated, violation.name, violation.detail)
        if violations:
            raise InvariantError("; ".join(f"{name}: {detail}" for name, detail in violations))
