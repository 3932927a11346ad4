"""Serves the requests of a `RecordedRun` with another configuration, and records it.

Engine, scheduler and memory are the real ones. Only the model is replaced: every sequence gets the
tokens of the recording, and a step takes as long as a fit to the recording's steps predicts. So
both sides of a race do the same work on the same machine, even if its model is not here.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from minivllm.clock import SimulatedClock
from minivllm.config import EngineConfig, stored_head_bytes
from minivllm.configurations import parse_configuration
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy, SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.errors import SimulationError
from minivllm.events.kv_usage import KVUsageMeter, mean
from minivllm.events.recording.log import LogWriter
from minivllm.events.types import LogHeader, StepEnd
from minivllm.lab.bench.step.points import point_of
from minivllm.lab.race.recorded_run import RecordedRequest, RecordedRun
from minivllm.lab.simulate.step_time_model import StepTimeModel
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch
from minivllm.sampling_params import RequestOutputKind, SamplingParams

IDLE_SECONDS = 0.001
"""Duration of a step in which nothing could run, as in `MonotonicClock.idle`."""


@dataclass(frozen=True, slots=True)
class RerunSide:
    """One side of a race."""

    config: EngineConfig
    requests: list[RecordedRequest]

    @property
    def num_tokens(self) -> int:
        """How many tokens go through the model, if none is cached or computed twice."""
        return sum(
            len(request.prompt_token_ids) + sum(map(len, request.outputs))
            for request in self.requests
        )


class EstimatedClock(SimulatedClock):
    # With this name, views show seconds. On a virtual clock, all steps take equally long.
    name = "monotonic"

    def idle(self) -> None:
        self.advance_to(self.now() + IDLE_SECONDS)


class RecordedModel:
    """A runner that lets the predicted time pass, and samples the recorded tokens."""

    def __init__(self, side: RerunSide, times: StepTimeModel, clock: EstimatedClock) -> None:
        self.num_blocks = side.config.num_gpu_blocks_override
        self.max_model_len = side.config.max_model_len
        self._outputs = {request.request_id: request.outputs for request in side.requests}
        self._times, self._clock = times, clock

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        """Do nothing: there are no keys and values."""

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        point = point_of(plan, 0.0)
        seconds = self._times.seconds(
            point.num_scheduled_tokens, point.num_decodes, point.num_context_tokens
        )
        self._clock.advance_to(self._clock.now() + seconds)
        return StepResult(logits=None)

    def device_works(self) -> bool:
        return True

    def sample_tokens(
        self, sequences: list[Sequence], logits: Any, watched: Collection[Sequence] = ()
    ) -> list[SampledToken]:
        return [
            self._token(self._outputs[one.request.request_id][one.index], one) for one in sequences
        ]

    @staticmethod
    def _token(output: list[int], sequence: Sequence) -> SampledToken:
        # A row after a draft can be behind the end of the recorded text; its token is not kept.
        return SampledToken(output[min(sequence.num_output_tokens, len(output) - 1)])


class RecordedPieces:
    """A tokenizer that knows only the texts of the recording's tokens."""

    def __init__(self, pieces: Mapping[int, str], requests: Seq[RecordedRequest]) -> None:
        self._pieces = pieces
        self.vocab_size = 1 + max(
            token_id
            for request in requests
            for token_ids in (request.prompt_token_ids, *request.outputs)
            for token_id in token_ids
        )
        self.eos_token_ids: frozenset[int] = frozenset()

    def decode(self, token_ids: list[int], skip_special_tokens: bool = True) -> str:
        return "".join(
            self.piece(one) for one in token_ids if not self.is_silent(one, skip_special_tokens)
        )

    def piece(self, token_id: int) -> str:
        return self._pieces.get(token_id, "")

    def is_silent(self, token_id: int, skip_special_tokens: bool) -> bool:
        """Special tokens and lone bytes have a name in angle brackets (`tokens.named`)."""
        piece = self.piece(token_id)
        return not piece or (piece.startswith("<") and piece.endswith(">"))

    def is_byte_fallback(self, token_id: int) -> bool:
        return False


def plan_side(run: RecordedRun, name: str, max_model_len: int) -> RerunSide:
    """Return the side with the short name of a configuration, such as `static+contiguous`.

    Raises `ConfigError` for an unknown name.
    """
    header = run.header
    side = parse_configuration(name)
    options = side.options_for(
        {
            "model": header.model,
            "num_gpu_blocks_override": _num_blocks(header, side.options.get("kv_cache_dtype")),
            "block_size": header.block_size,
            "max_num_seqs": header.max_num_seqs,
            "max_num_batched_tokens": header.max_num_batched_tokens,
            "max_model_len": max_model_len,
            "scheduling_policy": header.scheduling_policy,
            "enable_chunked_prefill": header.config.get("enable_chunked_prefill", True),
        }
    )
    is_paged = options.get("kv_cache_allocator", "paged") == "paged"
    if is_paged and header.config.get("kv_cache_allocator", "paged") == "paged":
        options["enable_prefix_caching"] = header.enable_prefix_caching
    requests = run.requests
    if not is_paged:
        requests = [part for request in requests for part in request.split()]
    return RerunSide(EngineConfig(**options), requests)


def _num_blocks(header: LogHeader, kv_cache_dtype: str | None) -> int:
    """How many blocks of this type fit into the bytes of the recording's blocks.

    kv_cache_dtype: None if the side leaves it open; `auto` is the type of the recording's model
    """
    recorded, size = header.kv_cache_dtype, header.head_size
    is_plain = kv_cache_dtype == "auto" and recorded != "int8_per_token_head"
    if is_plain or kv_cache_dtype in (None, recorded):
        return header.num_blocks
    if not size or kv_cache_dtype == "auto":
        raise SimulationError(
            "This recording does not contain how its model's keys and values would be stored in"
            " another type: run both with minivllm compare --a kv-float32 --b kv-int8."
        )
    num_bytes = header.num_blocks * stored_head_bytes(recorded, size)
    return num_bytes // stored_head_bytes(kv_cache_dtype, size)


def longest_that_fits(run: RecordedRun, notes: list[str]) -> int:
    """`max_model_len` for both sides: contiguous memory must hold one such sequence."""
    header = run.header
    room = header.num_blocks * header.block_size
    longest = max(
        len(request.prompt_token_ids) + len(output)
        for request in run.requests
        for output in request.outputs
    )
    if longest > room:
        raise SimulationError(
            f"A request of this recording has {longest} tokens, and one contiguous run of all"
            f" {header.num_blocks} blocks holds only {room}."
        )
    if header.max_model_len > room:
        notes.append(f"Longest sequence: {room} tokens, as many as all blocks hold.")
    return min(header.max_model_len, room)


class RerunResult(NamedTuple):
    seconds: float
    waste: float
    """Mean over the steps, from 0 to 1."""


def rerun(
    run: RecordedRun, side: RerunSide, path: Path, report: Callable[[int], None]
) -> RerunResult:
    """Serve all requests and record it.

    report: called after each step with the number of tokens that it computed
    """
    clock = EstimatedClock()
    times = run.step_times.model(side.config.max_num_batched_tokens)
    engine = LLMEngine(
        side.config,
        RecordedModel(side, times, clock),
        RecordedPieces(run.pieces, side.requests),
        clock=clock,
    )
    old = run.header
    header = structs.replace(
        engine.log_header(),
        weights=old.weights,
        weight_bytes=old.weight_bytes,
        lookup_bytes=old.lookup_bytes,
        block_bytes=old.num_blocks * old.block_bytes // side.config.num_gpu_blocks_override,
        kv_cache_dtype=_stored_as(side.config, old),
        head_size=old.head_size,
    )
    meter = KVUsageMeter(header)
    with LogWriter(path, header) as writer:
        engine.subscribe(writer.write)
        engine.subscribe(meter.apply)
        engine.subscribe(lambda event: report(event.used) if type(event) is StepEnd else None)
        _play(engine, clock, side.requests)
    return RerunResult(clock.now(), mean([sample.waste for sample in meter.samples]))


def _stored_as(config: EngineConfig, old: LogHeader) -> str:
    return old.kv_cache_dtype if config.kv_cache_dtype == "auto" else config.kv_cache_dtype


def _play(engine: LLMEngine, clock: EstimatedClock, requests: Seq[RecordedRequest]) -> None:
    waiting = deque(sorted(requests, key=lambda one: one.at))
    while waiting or engine.has_unfinished_requests():
        if not engine.has_unfinished_requests():
            clock.advance_to(waiting[0].at)
        while waiting and waiting[0].at <= clock.now():
            _send(engine, waiting.popleft())
        engine.step()


def _send(engine: LLMEngine, request: RecordedRequest) -> None:
    prompt: Any = {"prompt_token_ids": request.prompt_token_ids}
    if request.prompt is not None:
        prompt["prompt"] = request.prompt
    longest = max(map(len, request.outputs))
    params = SamplingParams(
        # Only one sample can be greedy. The runner gives the tokens, so nothing is drawn.
        temperature=0.0 if len(request.outputs) == 1 else 1.0,
        n=len(request.outputs),
        max_tokens=longest,
        ignore_eos=True,
        stop_token_ids=[output[-1] for output in request.outputs if len(output) < longest],
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    engine.add_request(request.request_id, prompt, params, request.priority)
