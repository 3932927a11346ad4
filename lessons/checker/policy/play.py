"""Serves traffic with the real engine and a toy model, on a clock whose steps cost time.

A step takes a constant time, for reading the weights, and some time for each token. So a long chunk
of a prompt makes all others in the batch wait for their next token, as on a real device.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from functools import partial

import msgspec

from minivllm.clock import SimulatedClock
from minivllm.config import EngineConfig
from minivllm.core.admission import RequestQueue
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.lessons.checker.cases.toy import EOS, ToyRunner, ToyTokenizer
from minivllm.lessons.checker.policy.traffic import MAX_TOKENS, PolicyRequest
from minivllm.lessons.scenarios.scripted import serve
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch
from minivllm.sampling_params import SamplingParams

SECONDS_PER_STEP, SECONDS_PER_TOKEN = 0.020, 0.0005
NUM_BLOCKS, BLOCK_SIZE, MAX_MODEL_LEN = 44, 8, 256
MAX_NUM_SEQS, MAX_NUM_BATCHED_TOKENS = 8, 64
MAX_STEPS = 4000


class Served(msgspec.Struct):
    """What happened to one request."""

    priority: int
    num_prompt_tokens: int
    arrived: float
    admissions: list[int] = []
    """Its numbers among all admissions: one, and one more after each preemption."""
    times: list[float] = []
    """When its tokens came, in seconds."""

    @property
    def time_to_first_token(self) -> float:
        return self.times[0] - self.arrived


class _TimedRunner(ToyRunner):
    """Ends each answer at its length, which the scheduler cannot know."""

    def __init__(self, clock: SimulatedClock, num_output_tokens: dict[str, int]) -> None:
        super().__init__(NUM_BLOCKS, BLOCK_SIZE, MAX_MODEL_LEN)
        self._clock = clock
        self._num_output_tokens = num_output_tokens

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        seconds = SECONDS_PER_STEP + plan.total_num_scheduled_tokens * SECONDS_PER_TOKEN
        self._clock.advance_to(self._clock.now() + seconds)
        return super().execute_model(plan, watch)

    def sample_tokens(self, sequences: list[Sequence], logits: list[int], *_) -> list[SampledToken]:
        lengths = self._num_output_tokens
        return [
            SampledToken(EOS)
            if one.num_output_tokens + 1 == lengths[one.request.request_id]
            else token
            for one, token in zip(sequences, super().sample_tokens(sequences, logits), strict=True)
        ]


def play_traffic(requests: Seq[PolicyRequest], waiting: RequestQueue) -> Iterator[str]:
    """Serve all requests, and yield a `Served` as a line of JSON for each."""
    served: dict[str, Served] = {}
    clock = SimulatedClock()
    lengths = {f"r{number}": one.num_output_tokens for number, one in enumerate(requests)}
    engine = _build_engine(_TimedRunner(clock, lengths), clock, waiting)
    engine.subscribe(_Notes(served).apply)

    def arrive(request_id: str, one: PolicyRequest) -> None:
        served[f"{request_id}.0"] = Served(one.priority, len(one.prompt_token_ids), one.arrives)
        params = SamplingParams(temperature=0, max_tokens=MAX_TOKENS)
        engine.add_request(
            request_id, {"prompt_token_ids": one.prompt_token_ids}, params, one.priority
        )

    arrivals = [
        (one.arrives, partial(arrive, request_id, one))
        for request_id, one in zip(lengths, requests, strict=True)
    ]
    serve(engine, clock, arrivals, MAX_STEPS)
    for one in served.values():
        yield msgspec.json.encode(one).decode()


def _build_engine(runner: _TimedRunner, clock: SimulatedClock, waiting: RequestQueue) -> LLMEngine:
    config = EngineConfig(
        model="toy",
        block_size=BLOCK_SIZE,
        max_num_seqs=MAX_NUM_SEQS,
        max_num_batched_tokens=MAX_NUM_BATCHED_TOKENS,
        enable_prefix_caching=True,
        scheduling_policy="priority",  # which allows requests to have a priority
    )
    return LLMEngine(config, runner, ToyTokenizer(), clock=clock, waiting=waiting)


class _Notes:
    def __init__(self, served: dict[str, Served]) -> None:
        self._served = served
        self._num_admissions = 0

    def apply(self, event: ev.Event) -> None:
        match event:
            case ev.TokenSampled():
                self._served[event.seq_id].times.append(event.t)
            case ev.RequestAdmitted() | ev.RequestResumed():
                self._served[event.seq_id].admissions.append(self._num_admissions)
                self._num_admissions += 1
