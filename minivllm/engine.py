"""`LLMEngine`: one step of serving, and the only place where all parts meet.

    schedule -> execute the model -> sample -> append, detokenize, stop -> tell

The engine knows the order of these and checks requests at the door; it decides nothing about memory
(the scheduler does) and computes nothing (the runner does). It is not thread-safe: one thread owns it
(`minivllm.engine_thread`).

The easy thing to get wrong is half a step. If the model raises, tokens are already counted as computed
and blocks are named that nobody wrote, so the engine declares itself dead and says so from then on.

Source: vLLM `vllm/v1/engine/llm_engine.py`, `core.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, Protocol

from minivllm import __version__
from minivllm.beams import BeamDriver
from minivllm.clock import Clock, MonotonicClock
from minivllm.config import EngineConfig
from minivllm.core.admission import AdmissionPolicy, refuse_if_too_large
from minivllm.core.contiguous import create_kv_cache_manager
from minivllm.core.invariants import check_invariants
from minivllm.core.policies import create_request_queue
from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.core.stop import Stop, check_stop
from minivllm.errors import EngineDeadError, InvariantError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus, Listener
from minivllm.events.state import EngineState
from minivllm.inputs import Prompt, read_prompt
from minivllm.inspection import inspect_engine
from minivllm.output_processor import OutputProcessor, SampledToken
from minivllm.outputs import RequestOutput
from minivllm.request_validation import RequestValidator
from minivllm.sampling_params import SamplingParams

if TYPE_CHECKING:
    from minivllm.runtime.loader import LoadedModel
    from minivllm.runtime.tokenizer import Tokenizer


class Runner(Protocol):
    """What the engine asks of `minivllm.runtime.model_runner.ModelRunner`, or of a test's stand-in."""

    num_blocks: int
    max_model_len: int
    t_prepare: float
    """Seconds that the last `execute_model` spent on building the batch."""
    record_attention_mass: bool
    attention_mass: list[list[float]]
    """If recorded: of each sequence of the last plan, the share of attention on each of its blocks."""

    def execute_model(self, plan: SchedulerOutput) -> Any:
        """Run the plan's tokens through the model; the logits of the sequences that sample."""

    def sample_tokens(self, plan: SchedulerOutput, logits: Any) -> Seq[SampledToken]:
        """One token for each scheduled sequence that samples, in the plan's order."""


_RECORDED_OPTIONS = (
    "dtype", "device", "seed", "enable_chunked_prefill", "kv_cache_allocator", "batching", "batch_delay", "batch_size",
)  # fmt: skip


class LLMEngine:
    """A model, its KV cache and its scheduler, moved on by `step()`."""

    def __init__(
        self, config: EngineConfig, runner: Runner, tokenizer: Tokenizer, *, clock: Clock | None = None
    ) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.max_model_len = runner.max_model_len
        self._runner = runner
        self._clock = clock or MonotonicClock()
        self._bus = EventBus(self._clock)
        config.check_whole_prompts_fit(runner.max_model_len)
        self._scheduler = Scheduler(
            create_kv_cache_manager(config, runner.num_blocks, runner.max_model_len, self._bus),
            create_request_queue(config.scheduling_policy),
            AdmissionPolicy(config.batching, config.batch_delay, config.batch_size or config.max_num_seqs),
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            max_model_len=runner.max_model_len,
            enable_chunked_prefill=config.enable_chunked_prefill,
            bus=self._bus,
        )
        self._validator = RequestValidator(config, tokenizer.vocab_size, tokenizer.eos_token_ids, runner.max_model_len)
        self._output_processor = OutputProcessor(tokenizer)
        self._beams = BeamDriver(
            self._scheduler, self._output_processor, tokenizer.eos_token_ids, runner.max_model_len, self._bus
        )
        self._last_plan: SchedulerOutput | None = None
        self._num_arrived = 0
        self._tells_attention_mass = False
        self._dead_because: BaseException | None = None

    @classmethod
    def from_config(cls, config: EngineConfig, *, clock: Clock | None = None) -> LLMEngine:
        """Load the model and allocate the KV cache. Takes seconds; imports torch."""
        from minivllm.runtime.loader import load_model

        return cls.from_model(config, load_model(config), clock=clock)

    @classmethod
    def from_model(cls, config: EngineConfig, model: LoadedModel, *, clock: Clock | None = None) -> LLMEngine:
        """An engine around a model that is loaded already; several engines may share one. Allocates the KV cache."""
        from minivllm.runtime.model_runner import ModelRunner

        clock = clock or MonotonicClock()
        # One clock for both: on the virtual one the runner's times must stand still, too.
        return cls(config, ModelRunner(config, model, clock.now), model.tokenizer, clock=clock)

    # ---- requests ----

    def add_request(
        self,
        request_id: str,
        prompt: Prompt,
        params: SamplingParams,
        priority: int = 0,
    ) -> None:
        """Queue a request.

        Raises a subclass of `InvalidRequestError`, before anything has changed, if it can never be served.
        """
        self._raise_if_dead()
        given = read_prompt(prompt, self.tokenizer)
        self._validator.check(request_id, given.token_ids, params, priority, self._scheduler.requests)
        request = Request(
            request_id,
            given.token_ids,
            params,
            prompt=given.text,
            priority=priority,
            arrival_time=self._clock.now(),
            arrival_number=self._num_arrived,
            cache_salt=given.cache_salt,
        )
        refuse_if_too_large(request, self._scheduler.kv_cache_manager, self.max_model_len)
        self._output_processor.add_sequence(request.sequences[0])
        if params.use_beam_search:
            self._beams.start(request)
        self._scheduler.add_request(request)
        self._num_arrived += 1

    def abort_request(self, request_id: str) -> RequestOutput | None:
        """End a request at once and free its blocks; its output so far, or None if it is not there (any more)."""
        request = self._scheduler.requests.get(request_id)
        if request is None or self._dead_because is not None:
            return None
        for sequence in request.sequences:
            if not sequence.status.is_finished:
                self._finish(sequence, Stop(RequestStatus.FINISHED_ABORTED))
        self._beams.forget(request)
        return self._output_processor.make_output(request)

    def has_unfinished_requests(self) -> bool:
        return bool(self._scheduler.requests)

    # ---- the step ----

    def step(self) -> list[RequestOutput]:
        """Plan and run one step; the outputs of the requests that gained a token (by their `output_kind`)."""
        self._raise_if_dead()
        if not self.has_unfinished_requests():
            return []
        try:
            return self._step()
        except BaseException as error:
            self._dead_because = error
            raise

    def _step(self) -> list[RequestOutput]:
        now = self._clock.now
        started = now()
        plan = self._last_plan = self._scheduler.schedule(started)
        scheduled = now()
        for item in plan.scheduled:
            for sample in item.sampling[1:]:  # just forked
                self._output_processor.add_sequence(sample)
        if self.config.check_invariants:
            self._check_invariants(plan)
        if not plan.scheduled:
            return self._idle_step(scheduled - started)
        execution_started = now()
        logits = self._runner.execute_model(plan)
        executed = now()
        if self._tells_attention_mass and self._bus.active:
            for item, mass in zip(plan.scheduled, self._runner.attention_mass, strict=True):
                self._bus.emit(ev.AttentionMass, item.sequence.seq_id, mass)
        sampled = self._runner.sample_tokens(plan, logits)
        touched: dict[str, Request] = {}
        sampling = [sequence for item in plan.scheduled for sequence in item.sampling]
        for sequence, token in zip(sampling, sampled, strict=True):
            if sequence.request.params.use_beam_search:
                self._beams.offer(sequence, token)
            else:
                self._append_token(sequence, token)
            touched[sequence.request.request_id] = sequence.request
        if self._bus.active:
            self._bus.emit(
                ev.StepEnd,
                plan.total_num_scheduled_tokens,
                scheduled - started,
                self._runner.t_prepare,
                executed - execution_started - self._runner.t_prepare,
                now() - executed,
            )
        if self.config.check_invariants:
            self._check_invariants(None)
        self._clock.end_step()
        outputs = (self._output_processor.make_output(request) for request in touched.values())
        return [output for output in outputs if output is not None]

    def _idle_step(self, t_schedule: float) -> list[RequestOutput]:
        """End a step in which all wait for company (`batch_delay`): time has to pass."""
        if self._bus.active:
            self._bus.emit(ev.StepEnd, 0, t_schedule, 0.0, 0.0, 0.0)
        self._clock.idle()
        self._clock.end_step()
        return []

    def _append_token(self, sequence: Sequence, sampled: SampledToken) -> None:
        """Give a sequence its new token, show what text became visible, and end it if it has to end."""
        sequence.append_token(sampled.token_id)
        stop = check_stop(sequence, self.tokenizer.eos_token_ids, self.max_model_len)
        new = self._output_processor.append(sequence, sampled)
        if new.stop_string is not None:
            stop = Stop(RequestStatus.FINISHED_STOPPED, new.stop_string)
        self._scheduler.counters.generation_tokens += 1
        if self._bus.active:
            logprob = sampled.logprobs[0].logprob if sampled.logprobs else None
            self._bus.emit(ev.TokenSampled, sequence.seq_id, sampled.token_id, new.text, logprob)
        if stop is not None:
            self._finish(sequence, stop, flush=new.stop_string is None)

    def _finish(self, sequence: Sequence, stop: Stop, flush: bool = True) -> None:
        """End a sequence. Text that was held back is shown, unless it belongs to a stop string."""
        if flush and (text := self._output_processor.flush(sequence)) and self._bus.active:
            self._bus.emit(ev.TextFlushed, sequence.seq_id, text)
        self._scheduler.finish(sequence, stop.status, stop.stop_reason)

    def _check_invariants(self, plan: SchedulerOutput | None) -> None:
        violations = check_invariants(self._scheduler, plan)
        for violation in violations:
            self._scheduler.counters.invariant_violations += 1
            if self._bus.active:
                self._bus.emit(ev.InvariantViolated, violation.name, violation.detail)
        if violations:
            raise InvariantError("; ".join(f"{name}: {detail}" for name, detail in violations))

    def _raise_if_dead(self) -> None:
        if self._dead_because is not None:
            raise EngineDeadError(
                f"This engine stopped in an earlier step ({self._dead_because!r}); build a new LLMEngine to go on."
            ) from self._dead_because

    # ---- views ----

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on, in the engine's thread; the result ends that."""
        return self._bus.subscribe(listener)

    def record_attention_mass(self, on: bool) -> None:
        """From the next step on tell an event `attention.mass` for each scheduled sequence, or no longer. Off at first."""
        self._tells_attention_mass = self._runner.record_attention_mass = on

    def inspect(self) -> EngineState:
        """The whole state as plain data, equal to the fold of all events so far. O(blocks + tokens)."""
        return inspect_engine(self._scheduler, self._last_plan, self._output_processor.visible_text)

    def log_header(self) -> ev.LogHeader:
        """The first line of a recording that starts now."""
        return ev.LogHeader(
            engine=__version__,
            model=self.config.model,
            clock=self._clock.name,
            # A recording on the virtual clock must not change from run to run.
            wall=time.time() if self._clock.name == "monotonic" else 0.0,
            mono=self._clock.now(),
            first_seq=self._bus.next_seq,
            num_blocks=self._runner.num_blocks,
            block_size=self.config.block_size,
            max_num_seqs=self.config.max_num_seqs,
            max_num_batched_tokens=self.config.max_num_batched_tokens,
            max_model_len=self.max_model_len,
            scheduling_policy=self.config.scheduling_policy,
            enable_prefix_caching=self.config.enable_prefix_caching,
            config={name: getattr(self.config, name) for name in _RECORDED_OPTIONS},
        )
