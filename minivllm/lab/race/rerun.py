"""Serves the requests of a `RecordedRun` with another configuration, and records it.

Engine, scheduler and memory are the real ones. Only the model is replaced: every sequence gets the
tokens of the recording, and a step takes as long as `recorded` predicts. So
both sides of a race do the same work on the same machine, even if its model is not here.
"""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from minivllm.clock import SimulatedClock
from minivllm.config import EngineConfig, stored_head_bytes
from minivllm.configurations import parse_configuration
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.errors import SimulationError
from minivllm.events.bus import Listener
from minivllm.events.recording.log import LogWriter
from minivllm.events.types import LogHeader
from minivllm.lab.bench.step.points import point_of
from minivllm.lab.simulate.step_times import IDLE_SECONDS, Fit
from minivllm.lessons.scenarios.scripted import ScriptedRunner, ScriptedTokenizer, serve
from minivllm.sampling_params import RequestOutputKind, SamplingParams


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    request_id: str
    prompt_token_ids: list[int]
    prompt: str | None
    outputs: list[list[int]]
    """The tokens of each sample. A beam search counts as one sample for each of its last beams."""
    at: float  # arrival in seconds of work after the first request
    priority: int = 0

    def split(self) -> Iterator["RecordedRequest"]:
        """Yield a request for each sample, for memory that cannot share a prompt's blocks."""
        for number, output in enumerate(self.outputs, start=1):
            name = f"{self.request_id}-{number}" if len(self.outputs) > 1 else self.request_id
            yield dataclasses.replace(self, request_id=name, outputs=[output])


@dataclass(frozen=True, slots=True)
class RecordedRun:
    header: LogHeader
    requests: list[RecordedRequest]
    pieces: dict[int, str]  # text of each token id
    step_times: Fit
    notes: list[str]  # sentences: where times come from, and what is not as in the recording


class EstimatedClock(SimulatedClock):
    name = "monotonic"  # so that views show seconds, and not steps

    def idle(self) -> None:
        self.advance_to(self.now() + IDLE_SECONDS)


def options_of(header: LogHeader) -> dict[str, Any]:
    """The options with which the requests were recorded."""
    allocator = header.config.get("kv_cache_allocator", "paged")
    return {
        "scheduling_policy": header.scheduling_policy,
        "batching": header.config.get("batching", "continuous"),
        "kv_cache_allocator": allocator,
        "enable_chunked_prefill": header.config.get("enable_chunked_prefill", True),
        # Contiguous memory cannot share, so it does not say whether blocks should.
        "enable_prefix_caching": header.enable_prefix_caching if allocator == "paged" else None,
        "max_num_batched_tokens": header.max_num_batched_tokens,
        "max_num_seqs": header.max_num_seqs,
        "num_gpu_blocks_override": header.num_usable_blocks,
        "block_size": header.block_size,
    }


def plan_side(
    run: RecordedRun, changes: dict[str, Any]
) -> tuple[EngineConfig, list[RecordedRequest]]:
    """changes: `EngineConfig` fields in place of `options_of(run.header)`

    Raises `ConfigError` or `SimulationError` for options that the engine cannot run with.
    """
    options = options_of(run.header) | changes
    is_paged = options["kv_cache_allocator"] == "paged"
    if not is_paged:
        options["enable_prefix_caching"] = False
    config = EngineConfig(model=run.header.model, **options)
    if config.max_model_len is None:
        longest = longest_that_fits(run, config.num_gpu_blocks_override, config.block_size)
        config = dataclasses.replace(config, max_model_len=longest)
    requests = run.requests
    if config.scheduling_policy != "priority":  # the engine would refuse other priorities
        requests = [dataclasses.replace(request, priority=0) for request in requests]
    if not is_paged:
        requests = [part for request in requests for part in request.split()]
    return config, requests


def longest_that_fits(run: RecordedRun, num_blocks: int, block_size: int) -> int:
    """The recording's `max_model_len`, or less: contiguous memory must hold one such sequence."""
    room = num_blocks * block_size
    longest = max(
        len(request.prompt_token_ids) + max(map(len, request.outputs)) for request in run.requests
    )
    if longest > room:
        raise SimulationError(
            f"A recorded request has {longest} tokens; all {num_blocks} blocks hold {room}."
        )
    return min(run.header.max_model_len, room)


def race_options(run: RecordedRun, name: str) -> dict[str, Any]:
    """Return the options of a configuration by its short name, such as `static+contiguous`.

    `max_model_len` is the same for all names, and memory for all but `blocks-x2`.
    """
    header, side = run.header, parse_configuration(name)
    return side.options_for(
        {
            **options_of(header),
            "batching": "continuous",
            "kv_cache_allocator": "paged",
            "max_model_len": longest_that_fits(run, header.num_usable_blocks, header.block_size),
            "num_gpu_blocks_override": _num_blocks(header, side.options.get("kv_cache_dtype")),
        }
    )


def _num_blocks(header: LogHeader, kv_cache_dtype: str | None) -> int:
    """How many blocks of this type fit into the bytes of the recording's blocks; None: its own."""
    recorded, size = header.kv_cache_dtype, header.head_size
    is_plain = kv_cache_dtype == "auto" and recorded != "int8_per_token_head"
    if is_plain or kv_cache_dtype in (None, recorded):
        return header.num_usable_blocks
    if not size or kv_cache_dtype == "auto":
        raise SimulationError(
            "This recording does not contain how its model's keys and values would be stored in"
            " another type: run both with minivllm compare --a kv-float32 --b kv-int8."
        )
    num_bytes = header.num_usable_blocks * stored_head_bytes(recorded, size)
    return num_bytes // stored_head_bytes(kv_cache_dtype, size)


def rerun(
    run: RecordedRun, changes: dict[str, Any], path: Path, listener: Listener = lambda event: None
) -> None:
    """Serve all requests, and record it at `path`. `listener` gets every event, too."""
    (config, requests), clock = plan_side(run, changes), EstimatedClock()
    times = run.step_times.model(config.max_num_batched_tokens)
    outputs = {request.request_id: request.outputs for request in requests}

    def next_token(sequence: Sequence) -> int:
        output = outputs[sequence.request.request_id][sequence.index]
        # A row after a draft can be behind the end of the recorded text; its token is not kept.
        return output[min(sequence.num_output_tokens, len(output) - 1)]

    def spend(plan: SchedulerOutput) -> None:
        clock.advance_to(clock.now() + times.predict(point_of(plan, 0.0)))

    blocks, longest = config.num_gpu_blocks_override, config.max_model_len
    runner = ScriptedRunner(blocks, longest, next_token, spend)
    runner.block_bytes = run.header.block_bytes  # so that a load takes time
    engine = LLMEngine(config, runner, _tokenizer(run), clock=clock)
    # Just before the end of the same step, even if its time is added up from another beginning.
    early = 1 - 1e-9
    arrivals = [(early * request.at, _sender(engine, request)) for request in requests]
    with LogWriter(path, _header(engine, run.header)) as writer:
        engine.subscribe(writer.write)
        engine.subscribe(listener)
        serve(engine, clock, arrivals)


def _tokenizer(run: RecordedRun) -> ScriptedTokenizer:
    """It knows only the texts of the recording's tokens."""
    ids: set[int] = set()
    for request in run.requests:
        ids.update(request.prompt_token_ids, *request.outputs)
    pieces = {token_id: run.pieces.get(token_id, "") for token_id in ids}
    # Special tokens and lone bytes have a name in angle brackets (`tokens.named`).
    silent = {key for key, text in pieces.items() if not text or (text[0], text[-1]) == ("<", ">")}
    return ScriptedTokenizer(pieces.__getitem__, 1 + max(ids), silent)


def _header(engine: LLMEngine, old: LogHeader) -> LogHeader:
    size, dtype = engine.config.block_size, engine.config.kv_cache_dtype
    names = ("weights", "weight_bytes", "lookup_bytes", "head_size")
    facts = {name: getattr(old, name) for name in names}
    facts["kv_cache_dtype"] = old.kv_cache_dtype if dtype == "auto" else dtype
    equal = _num_blocks(old, None if dtype == "auto" else dtype) * old.block_size
    facts["block_bytes"] = old.num_usable_blocks * old.block_bytes * size // equal
    return structs.replace(engine.log_header(), **facts)


def _sender(engine: LLMEngine, request: RecordedRequest) -> Callable[[], None]:
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
    return partial(engine.add_request, request.request_id, prompt, params, request.priority)
