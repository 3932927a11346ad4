"""`LLMEngine`: one step of serving, and the only place where all parts meet.

    the door (requests in and out) -> `Stepper`: schedule, execute, sample -> outputs, events, `inspect()`

The engine builds the parts, checks requests at the door and answers questions; `minivllm.engine.stepper` carries out the
step. It is not thread-safe: one thread owns it (`minivllm.engine.engine_thread`).

The easy thing to get wrong is half a step. If a phase raises, tokens are already counted as computed
and blocks are named that nobody wrote, so the engine declares itself dead and says so from then on.

Source: vLLM `vllm/v1/engine/llm_engine.py`, `core.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from minivllm import __version__
from minivllm.clock import Clock, MonotonicClock
from minivllm.config import EngineConfig
from minivllm.core.admission import refuse_if_too_large
from minivllm.core.assembly import create_scheduler
from minivllm.core.request import Request
from minivllm.engine.beams import BeamDriver
from minivllm.engine.inputs import Prompt, read_prompt
from minivllm.engine.inspection import inspect_engine
from minivllm.engine.live_options import change_option
from minivllm.engine.output_processor import OutputProcessor
from minivllm.engine.request_validation import RequestValidator
from minivllm.engine.stepper import Runner, Stepper
from minivllm.errors import EngineDeadError, StepInProgressError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus, Listener
from minivllm.events.state import EngineState
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import SamplingParams

if TYPE_CHECKING:
    from minivllm.runtime.loader import LoadedModel
    from minivllm.runtime.text.tokenizer import Tokenizer


_RECORDED_OPTIONS = (
    "dtype", "device", "seed", "enable_chunked_prefill", "kv_cache_allocator", "batching", "batch_delay", "batch_size",
)  # fmt: skip


class LLMEngine:
    """A model, its KV cache and its scheduler, moved on by `step()`.

    Made by `from_config`, or by `from_model` where several engines share a model; the parts given one by one are for tests:

    - `config`: the options, which `runner` (the model with its KV cache) and `tokenizer` must have been made by.
    - `clock`: tells the time of every event, in seconds; by default the system's monotonic clock.

    Raises `ConfigError` if prompts must stay whole and a step cannot hold the longest. One thread owns an engine.
    """

    config: EngineConfig
    """The options that it was built with; those that were changed since (`set_option`) keep their first value here."""
    tokenizer: Tokenizer
    """The model's own: text to token ids and back, chat template, end-of-sequence ids."""
    max_model_len: int
    """Most tokens of one sequence, prompt and output; the model's own limit where the options name none."""

    def __init__(
        self, config: EngineConfig, runner: Runner, tokenizer: Tokenizer, *, clock: Clock | None = None
    ) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.max_model_len = runner.max_model_len
        self._runner = runner
        self._clock = clock or MonotonicClock()
        self._bus = EventBus(self._clock)
        self._scheduler = create_scheduler(config, runner.num_blocks, runner.max_model_len, self._bus)
        self._validator = RequestValidator(config, tokenizer.vocab_size, tokenizer.eos_token_ids, runner.max_model_len)
        self._output_processor = OutputProcessor(tokenizer)
        self._beams = BeamDriver(
            self._scheduler, self._output_processor, tokenizer.eos_token_ids, runner.max_model_len, self._bus
        )
        self._stepper = Stepper(
            runner,
            self._scheduler,
            self._output_processor,
            self._beams,
            eos_token_ids=tokenizer.eos_token_ids,
            max_model_len=runner.max_model_len,
            check_invariants=config.check_invariants,
            clock=self._clock,
            bus=self._bus,
        )
        self._num_arrived = 0
        self._dead_because: BaseException | None = None

    @classmethod
    def from_config(cls, config: EngineConfig, *, clock: Clock | None = None) -> LLMEngine:
        """Load the model that `config` names and allocate the KV cache. Takes seconds; imports torch. `clock`: as above.

        Raises a `ModelError` if the model cannot be had or run, and `ConfigError` if memory or device do not allow `config`.
        """
        from minivllm.runtime.loader import load_model

        return cls.from_model(config, load_model(config), clock=clock)

    @classmethod
    def from_model(cls, config: EngineConfig, model: LoadedModel, *, clock: Clock | None = None) -> LLMEngine:
        """An engine around a `model` that is loaded already; several engines may share one. Allocates the KV cache.

        `config`, `clock`: as for `from_config`. Raises `ConfigError` if the KV cache cannot be had.
        """
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
        """Queue a request; it is admitted by one of the next steps.

        - `request_id`: any name that no unfinished request has.
        - `prompt`: text, `{"prompt": text}` or `{"prompt_token_ids": ids}`, either with a `cache_salt`.
        - `params`: how to sample and when to stop.
        - `priority`: lower is sooner; counts where `scheduling_policy` is `priority`.

        Raises a subclass of `InvalidRequestError`, before anything has changed, if it can never be served, and
        `EngineDeadError` after a step that failed.
        """
        request = self.check_request(request_id, prompt, params, priority)
        self._output_processor.add_sequence(request.sequences[0])
        if params.use_beam_search:
            self._beams.start(request)
        self._scheduler.add_request(request)
        self._num_arrived += 1

    def check_request(self, request_id: str, prompt: Prompt, params: SamplingParams, priority: int = 0) -> Request:
        """What `add_request` would queue for this `request_id`, `prompt`, `params` and `priority`; raises as it does.

        Nothing changes: for those who add several or none.
        """
        self._raise_if_dead()
        given = read_prompt(prompt, self.tokenizer)
        scheduler = self._scheduler
        self._validator.check(request_id, given.token_ids, params, priority, scheduler.requests, scheduler.slots.limit)
        request = Request(
            request_id,
            given.token_ids,
            params,
            prompt=given.text,
            priority=priority,
            arrival_number=self._num_arrived,
            cache_salt=given.cache_salt,
        )
        refuse_if_too_large(request, scheduler.kv_cache_manager, self.max_model_len)
        return request

    def abort_request(self, request_id: str) -> RequestOutput | None:
        """End the request `request_id` at once and free its blocks; its output so far, or None if it is not there (any more).

        Raises `StepInProgressError` between two phases of a step.
        """
        request = self._scheduler.requests.get(request_id)
        if request is None or self._dead_because is not None:
            return None
        self._raise_if_in_step("abort the request")
        self._stepper.abort(request)
        return self._output_processor.make_output(request)

    def has_unfinished_requests(self) -> bool:
        """Whether any request waits or runs: whether another `step()` has something to do."""
        return bool(self._scheduler.requests)

    # ---- the step ----

    def step(self) -> list[RequestOutput]:
        """Plan and run one step, or what is left of it; the outputs of the requests that gained a token (by their
        `output_kind`). An empty list if there is nothing to do.

        Raises `EngineDeadError` after a step that failed; whatever the model raises, which makes the engine dead, passes through.
        A request that fails alone raises nothing: its output has an `error`.
        """
        while (outputs := self.step_phase()) is None:
            pass
        return outputs

    def step_phase(self) -> list[RequestOutput] | None:
        """Run the next phase of a step (see `minivllm.engine.stepper`): the outputs if the step has ended with it, else None.

        Between two phases requests may be added, and events and `inspect()` are true. Aborts and options have to wait.
        Raises as `step` does.
        """
        self._raise_if_dead()
        if self.next_phase == "schedule" and not self.has_unfinished_requests():
            return []
        try:
            return self._stepper.run_phase()
        except BaseException as error:
            self._dead_because = error
            raise

    @property
    def next_phase(self) -> ev.Phase:
        """What `step_phase` runs next; `schedule` between two steps."""
        return self._stepper.next_phase

    def _raise_if_in_step(self, wish: str) -> None:
        if self.next_phase != "schedule":
            raise StepInProgressError(
                f"A step is under way and cannot lose what it has planned: finish it, then {wish}."
            )

    def _raise_if_dead(self) -> None:
        if self._dead_because is not None:
            raise EngineDeadError(
                f"This engine stopped in an earlier step ({self._dead_because!r}); build a new LLMEngine to go on."
            ) from self._dead_because

    # ---- switches and views ----

    def set_option(self, name: ev.LiveOption, value: int) -> None:
        """Change the option `name`, `max_num_batched_tokens` or `max_num_seqs`, from the next step on.

        `value`: in tokens or sequences, up to what the engine was built with. Lowering `max_num_seqs` preempts nobody.
        Raises `ConfigError`, `StepInProgressError` between two phases, and `EngineDeadError` after a step that failed.
        """
        self._raise_if_dead()
        self._raise_if_in_step("change the option")
        change_option(self._scheduler, self.config, self.max_model_len, self._bus, name, value)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on, in the engine's thread; the result ends that."""
        return self._bus.subscribe(listener)

    def record_attention_mass(self, on: bool) -> None:
        """From the next step on tell an event `attention.mass` for each scheduled sequence (`on`), or no longer. Off at first."""
        self._stepper.tells_attention_mass = self._runner.record_attention_mass = on

    def trace_kernel(self, seq_id: str) -> None:
        """Tell one event `kernel.traced` for the next decode of the sequence `seq_id` (see `minivllm.engine.kernel_tracing`).

        Raises `InvalidRequestError` if there is no such sequence, and `EngineDeadError`.
        """
        self._raise_if_dead()
        self._stepper.tracer.ask(seq_id, self._scheduler.requests)

    def inspect(self) -> EngineState:
        """The whole state as plain data, equal to the fold of all events so far, after each phase. O(blocks + tokens)."""
        return inspect_engine(self._scheduler, self._stepper.last_plan, self._output_processor.visible_text)

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
