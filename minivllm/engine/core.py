"""`EngineCore`: owns the parts of one engine and runs its steps.

    schedule   plan how many tokens each sequence gets, and allocate their blocks
    execute    run the planned tokens through the model
    sample     draw a token for each sequence whose last token was computed; append the token,
               check for a stop, decode its text (at the request's end if nobody needs it earlier)

Between phases a request may be queued, but no block may be freed: the planned blocks are already
registered in the prefix cache, and other sequences of the plan may read them. An abort therefore
waits for the end of the step.

An error in one sequence (the model raises, logits are NaN, a token has no text) fails only the
request of that sequence. If a phase itself raises, the core cannot continue.

Source: vLLM `vllm/v1/engine/core.py` (`EngineCore.step`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minivllm.clock import Clock
from minivllm.config import EngineConfig
from minivllm.core.assembly import create_kv_cache_manager, create_scheduler
from minivllm.core.drafter import NO_DRAFTS
from minivllm.core.invariants import check_invariants
from minivllm.core.request import Request
from minivllm.core.request_queue import RequestQueue
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.isolation import IsolatingRunner
from minivllm.engine.output_processor import OutputProcessor
from minivllm.engine.requests import Limits
from minivllm.engine.runner import Runner
from minivllm.engine.updates import DrawnTokens, Updater
from minivllm.engine.watching.watchers import Watchers
from minivllm.errors import InvariantError, SamplingError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.outputs import RequestOutput
from minivllm.runtime.step_result import StepResult
from minivllm.speculation.base import Proposer
from minivllm.speculation.verify import verify

if TYPE_CHECKING:
    from minivllm.runtime.text.tokenizer import Tokenizer


class EngineCore:
    """One engine's scheduler, model and outputs. Do not use it after a phase has raised.

    The arguments are those of `LLMEngine`.
    """

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        tokenizer: Tokenizer,
        clock: Clock,
        proposer: Proposer | None,
        waiting: RequestQueue | None,
    ) -> None:
        self.clock = clock
        self.bus = EventBus(clock)
        self.limits = Limits(runner.max_model_len, tokenizer.eos_token_ids, tokenizer.vocab_size)
        self.watchers = Watchers(tokenizer, self.bus, explain_all=config.explain_tokens)
        limit, names = runner.max_model_len, self.watchers.names
        manager = create_kv_cache_manager(config, runner.num_blocks, limit, self.bus)
        drafter, speculative = NO_DRAFTS, config.speculative_config
        if speculative is not None:
            from minivllm.speculation.drafter import SpeculativeDrafter

            drafter = SpeculativeDrafter(
                speculative, proposer, manager, limit, self.bus, names.name
            )
        self.scheduler = create_scheduler(config, manager, limit, self.bus, drafter, waiting)
        self.runner = runner
        self.output_processor = OutputProcessor(tokenizer)
        self.updater = Updater(
            self.scheduler, self.output_processor, self.limits, self.watchers, self.bus
        )
        self.last_plan: SchedulerOutput | None = None
        self._isolated = IsolatingRunner(runner, config.block_size)
        self._checks_invariants = config.check_invariants
        self._seconds = {"schedule": 0.0, "prepare": 0.0, "model": 0.0}

    def step(self) -> list[RequestOutput]:
        """Run one step. Returns outputs of the requests that gained a token (see `output_kind`)."""
        plan = self.schedule()
        result = self.execute(plan)
        return self.sample(plan, result)

    def schedule(self) -> SchedulerOutput:
        """Decide how many tokens of each sequence go through the model, and give them blocks."""
        started = self.clock.now()
        plan = self.last_plan = self.scheduler.schedule(started)
        self._seconds = {"schedule": self.clock.now() - started, "prepare": 0.0, "model": 0.0}
        for item in plan.scheduled:
            for sample in item.sampling[1:]:  # just forked
                self.output_processor.add_sequence(sample)
        self._check_invariants(plan)
        return plan

    def execute(self, plan: SchedulerOutput) -> StepResult:
        """Run the planned tokens through the model. The result has the logits to draw from."""
        if not plan.scheduled:
            return StepResult(logits=None)  # all requests wait for more arrivals (`batch_delay`)
        watch = self.watchers.before(plan)
        started = self.clock.now()
        result = self._isolated.execute_model(plan, watch)
        self._seconds["prepare"] = result.t_prepare
        self._seconds["model"] = self.clock.now() - started - result.t_prepare
        self.watchers.after(result.part_of(plan), watch, result)
        return result

    def sample(self, plan: SchedulerOutput, result: StepResult) -> list[RequestOutput]:
        """Draw a token for each sequence that is due, and carry out what the tokens change."""
        started = self.clock.now()
        drawn = self._draw(result.part_of(plan), result)
        self.watchers.drawn(drawn.tokens, drawn.verified)
        self.updater.update(drawn, result)
        if self.bus.active:
            seconds = (*self._seconds.values(), self.clock.now() - started)
            self.bus.emit(ev.StepEnd, plan.total_num_scheduled_tokens, *seconds)
        self._check_invariants(None)
        if not plan.scheduled:
            self.clock.idle()
        self.clock.end_step()
        return self.updater.make_outputs(drawn)

    def _draw(self, plan: SchedulerOutput, result: StepResult) -> DrawnTokens:
        # A GPU is still computing the logits, so first do the work that needs no tokens.
        sequences, failed = plan.sampling_sequences(), result.failures.failed
        drawn = DrawnTokens(dict.fromkeys([sequence.request for sequence in [*failed, *sequences]]))
        explained = self.watchers.explained(sequences)
        if sequences:
            tokens = self._isolated.sample_tokens(sequences, result.logits, explained)
            drawn.tokens = list(zip(sequences, tokens, strict=True))
        if plan.num_draft_tokens:
            drawn.tokens, drawn.verified = verify(plan, drawn.tokens)
        for sequence in failed:
            error = SamplingError(f"The model failed on {sequence.seq_id}.", sequence.seq_id)
            drawn.tokens.append((sequence, error))
        return drawn

    def _check_invariants(self, plan: SchedulerOutput | None) -> None:
        violations = check_invariants(self.scheduler, plan) if self._checks_invariants else ()
        for violation in violations:
            self.scheduler.counters.invariant_violations += 1
            if self.bus.active:
                self.bus.emit(ev.InvariantViolated, violation.name, violation.detail)
        if violations:
            raise InvariantError("; ".join(f"{name}: {detail}" for name, detail in violations))

    # ---- requests in and out ----

    def add_request(self, request: Request) -> None:
        """Queue a request that has been checked."""
        self.output_processor.add_sequence(request.sequences[0])
        if request.params.use_beam_search:
            self.updater.beams.start(request)
        if self.bus.active:
            self.watchers.names.name(request.prompt_token_ids)
        self.scheduler.add_request(request)

    def abort_request(self, request: Request) -> RequestOutput:
        """End an unfinished request between two steps. Returns its output so far."""
        self.updater.abort(request)
        return self.output_processor.make_output(request)
