"""`Replica`: one engine without a model: the real scheduler and KV cache, and a formula for time.

    begin a step   the scheduler plans the step, and the step-time model sets its end
    end a step     each sequence that has computed all its tokens gets a new token, and one more
                   for each accepted draft; a sequence with its full output length finishes

Requests can arrive between begin and end. They must not join the running step, and a router must
not see the step's results yet. It is no `LLMEngine`, which takes more than twice as long for a
token: sampling, stops and texts.
"""

import math
from array import array
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from random import Random

from minivllm.clock import SimulatedClock
from minivllm.config import EngineConfig
from minivllm.core.admission import refuse_if_too_large
from minivllm.core.contiguous import create_kv_cache_manager
from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import NO_DRAFTS, ScheduledDrafts, SchedulerOutput
from minivllm.errors import RequestTooLargeError, SimulationError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.events.ledger import SequenceTimes
from minivllm.lab.simulate.arrivals import Arrival
from minivllm.lab.simulate.step_times import IDLE_SECONDS, StepTimeModel
from minivllm.sampling_params import SamplingParams
from minivllm.speculation.drafter import SpeculativeDrafter
from minivllm.speculation.proposers import Draft, Wanted
from minivllm.version import __version__

TEXT = "·"
SERIES = ("began", "seconds", "used_blocks", "running", "waiting")
"""The numbers in `Replica.steps`, for each step. They hold from the step's start to its end."""


@dataclass(slots=True, kw_only=True)
class ServedRequest(SequenceTimes):
    """A row of the results. The replica fills it in itself, as it emits no events without a
    listener; `RequestLedger` folds the same times (a test checks this).
    """

    number: int
    arrival: Arrival
    output_tokens: int
    """The arrival's output length, cut at the maximum model length."""


class AssumedDrafts:
    """A `Proposer`, and the verification of its drafts: a simulation has no texts.

    With an acceptance rate of 0.6 and four drafts, the first is right in 60 % of the steps, the
    first two in 36 %, and so on. Every sequence finds a draft whenever it wants one, which takes no
    time, as with prompt lookup in a text full of repetitions.
    """

    def __init__(self, acceptance_rate: float, seed: str) -> None:
        self._rate = acceptance_rate
        self._random = Random(f"drafts/{seed}")

    def propose(self, wanted: Seq[Wanted]) -> list[Draft]:
        """See `Proposer.propose`. All tokens of a sequence's own have the same id."""
        return [Draft([want.sequence.token_ids[-1]] * want.num_tokens, "ngram") for want in wanted]

    def forget(self, sequence: Sequence) -> None:
        """See `Proposer.forget`."""

    def num_accepted(self, item: ScheduledDrafts) -> int:
        """Draw how many drafts of `item` are right before the first wrong one."""
        drawn = iter(lambda: self._random.random() < self._rate, False)
        return sum(islice(drawn, len(item.draft_token_ids)))


class Replica:
    def __init__(
        self, config: EngineConfig, times: StepTimeModel, seed: str, acceptance_rate: float | None
    ) -> None:
        """acceptance_rate: of drafts; must be given if `config` has a `speculative_config`"""
        self.config = config
        self.finished: list[ServedRequest] = []
        self.steps = array("d")
        """One number after another: `SERIES` of the first step, of the second, ..."""
        self.gaps = array("d")
        """Times between neighbouring tokens, in pairs: a gap, and how many tokens had it."""
        self.plan: SchedulerOutput | None = None  # of the last step
        self._num_arrived = 0
        self.max_output = config.max_model_len
        self.clock = SimulatedClock()
        self.bus = EventBus(self.clock)
        limit, num_blocks = config.max_model_len, config.num_gpu_blocks_override
        manager = create_kv_cache_manager(config, num_blocks, limit, self.bus)
        drafter, drafts = NO_DRAFTS, config.speculative_config
        if drafts is not None:
            self._drafts = AssumedDrafts(acceptance_rate, seed)
            drafter = SpeculativeDrafter(drafts, self._drafts, manager, limit, self.bus)
        self.scheduler = Scheduler(config, manager, limit, self.bus, drafter)
        self._times = times
        self._served: dict[Sequence, ServedRequest] = {}
        self._ends: float | None = None  # the end of the running step; None between two steps
        self._last_end = math.nan  # differs from every token's time

    # ---- requests in ----

    def add(self, arrival: Arrival, request: Request, now: float) -> ServedRequest:
        """Queue a request. First call `run_until` with the same time, `now`."""
        self.clock.advance_to(now)
        limit = self.config.max_model_len
        try:
            refuse_if_too_large(request, self.scheduler.kv_cache_manager, limit)
        except RequestTooLargeError as error:
            raise SimulationError(str(error)) from error
        request.arrival_number = self._num_arrived
        self._num_arrived += 1
        length = min(arrival.output_tokens, limit - arrival.prompt_tokens, self.max_output)
        number = int(request.request_id)
        served = ServedRequest(arrival.at, number=number, arrival=arrival, output_tokens=length)
        self._served[request.sequences[0]] = served
        self.scheduler.add_request(request)
        return served

    @property
    def load(self) -> int:
        """vLLM's measure of load: a waiting request counts like four running ones."""
        return 4 * len(self.scheduler.waiting) + len(self.scheduler.running)

    # ---- time ----

    @property
    def now(self) -> float:
        return self.clock.now()

    def next_end(self) -> float:
        """Begin a step if none runs. Return when it ends; infinity if there is nothing to do."""
        if self._ends is None and self.scheduler.requests:
            self._begin_step()
        return math.inf if self._ends is None else self._ends

    def run_until(self, moment: float) -> None:
        """Run until `moment`. A step that ends after `moment` is left running."""
        while (self._ends is not None or self.now < moment) and self.next_end() <= moment:
            self._end_step()

    def _begin_step(self) -> None:
        now = self.clock.now()
        scheduler = self.scheduler
        plan = self.plan = scheduler.schedule(now)
        num_decodes = context = 0
        for item in plan.scheduled:
            context += item.start
            if item.kind == "decode":
                num_decodes += 1
            if item.starts_fresh:
                served = self._served[item.sequence]
                if served.admitted is None:
                    served.admitted = now
        seconds = IDLE_SECONDS
        if num_tokens := plan.total_num_scheduled_tokens:
            seconds = self._times.seconds(num_tokens, num_decodes, context)
        self._ends = now + seconds
        pool = scheduler.kv_cache_manager.pool
        used = len(pool.blocks) - pool.num_free_blocks
        self.steps.extend((now, seconds, used, len(scheduler.running), len(scheduler.waiting)))

    def _end_step(self) -> None:
        plan, now, before, began = self.plan, self._ends, self._last_end, self.clock.now()
        self._ends, self._last_end = None, now
        self.clock.advance_to(now)
        scheduler, in_service = self.scheduler, self._served
        emits = self.bus.active
        num_tokens = num_usual = 0
        for item in plan.scheduled:
            for sequence in item.sampling:
                token_id = sequence.token_ids[-1]
                num_new = self._settle(item, token_id) if item.draft_token_ids else 1
                num_tokens += num_new
                served = in_service[sequence]
                # Most sequences also got a token in the previous step, so they have the same gap.
                if served.last_token == before:
                    num_usual += 1
                elif served.last_token is not None:
                    self.gaps.extend((now - served.last_token, 1))
                else:
                    served.first_token = now
                served.last_token = now
                served.num_tokens += num_new
                for _ in range(num_new):
                    sequence.append_token(token_id)
                    if emits:
                        self.bus.emit(ev.TokenSampled, sequence.seq_id, token_id, TEXT)
                if served.num_tokens == served.output_tokens:
                    self._finish(sequence)
        if num_usual:
            self.gaps.extend((now - before, num_usual))
        scheduler.counters.generation_tokens += num_tokens
        if emits:
            self.bus.emit(ev.StepEnd, plan.total_num_scheduled_tokens, 0.0, 0.0, now - began, 0.0)

    def _settle(self, item: ScheduledDrafts, token_id: int) -> int:
        """Decide how many drafts are right; return how many new tokens the sequence has."""
        num_accepted = self._drafts.num_accepted(item)
        self.scheduler.settle_draft(item, num_accepted, token_id)
        return num_accepted + 1

    def _finish(self, sequence: Sequence) -> None:
        self.scheduler.finish(sequence, RequestStatus.FINISHED_LENGTH_CAPPED)
        self.finished.append(self._served.pop(sequence))
        # Break the reference cycle of request and sequence: collecting a hundred thousand such
        # pairs costs seconds.
        sequence.request.sequences.clear()

    # ---- views ----

    def log_header(self, model: str) -> ev.LogHeader:
        names = ("block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
        options = {name: getattr(self.config, name) for name in (*names, "scheduling_policy")}
        clock = {"clock": "virtual", "wall": 0.0, "mono": self.now}
        return ev.LogHeader(
            engine=__version__, model=model, num_blocks=self.config.num_gpu_blocks_override,
            enable_prefix_caching=bool(self.config.enable_prefix_caching), **clock, **options,
        )  # fmt: skip


def make_request(number: int, arrival: Arrival) -> Request:
    params = _params(arrival.output_tokens)
    return Request(str(number), arrival.prompt(number), params, priority=arrival.priority)


@lru_cache(maxsize=4096)
def _params(output_tokens: int) -> SamplingParams:
    # Validating the fields takes longer than queueing a request.
    return SamplingParams(temperature=0.0, max_tokens=output_tokens, ignore_eos=True)
