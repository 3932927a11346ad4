"""`TwinTrace`: the requests of a recording, as both engines of a twin run get them.

A request is one sample: its prompt, the tokens that it got, and the step before which it arrived.
No model is needed, because the tokens are given. What the recording's scheduler decided is left
out: both sides decide anew.
"""

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from minivllm.errors import SimulationError
from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording

OPTIONS = (
    "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "scheduling_policy",
    "enable_prefix_caching",
)  # fmt: skip


class TwinRequest(msgspec.Struct):
    name: str
    prompt_token_ids: list[int]
    output_token_ids: list[int]
    arrival_step: int  # the number of steps before it
    priority: int = 0
    abort_step: int | None = None  # the number of steps before its caller ends it


class TwinTrace(msgspec.Struct):
    num_blocks: int
    """Blocks that sequences can get. vLLM has one more, its null block."""
    options: dict[str, Any]  # `OPTIONS` of both engines
    requests: list[TwinRequest]  # in the order of arrival
    is_vllms: bool = False
    """A synchronous vLLM has made the recording, without drafts and without aborts during a step,
    which minivllm has not: it aborts between two steps.
    """
    has_drafts: bool = False


def read_trace(path: Path) -> TwinTrace:
    """Raises `SimulationError` if the recording lacks requests or their tokens."""
    recording = Recording(path)
    header = recording.header
    if header.first_seq:
        recording.close()
        raise SimulationError(f"{path} begins in the middle of a run, so requests are missing.")
    requests: dict[str, TwinRequest] = {}
    unfinished: dict[str, int] = {}
    has_drafts = is_in_step = ends_in_step = False
    for event in recording.events(0, len(recording)):
        match event:
            case ev.RequestArrived(seq_id=name, step=step, prompt_token_ids=prompt):
                requests[name] = TwinRequest(name, prompt, [], step, event.priority)
                unfinished[name] = event.max_tokens
            case ev.RequestForked(seq_id=name, parent=parent):
                tokens = [*requests[parent].output_token_ids]
                requests[name] = replace(requests[parent], name=name, output_token_ids=tokens)
                unfinished[name] = unfinished[parent]
            case ev.TokenSampled(seq_id=name):
                requests[name].output_token_ids.append(event.token_id)
            case ev.StepBegin() | ev.StepEnd():
                is_in_step = isinstance(event, ev.StepBegin)
            case ev.RequestFinished(seq_id=name, stop_reason=str()) if header.source:
                # vLLM's front end has found a stop string, and has aborted the request.
                requests[name].abort_step, ends_in_step = event.step, ends_in_step or is_in_step
            case ev.RequestFinished(seq_id=name) | ev.BeamPruned(seq_id=name):
                unfinished.pop(name, None)
            case ev.RequestAborted(seq_id=name):
                requests[name].abort_step, ends_in_step = event.step, ends_in_step or is_in_step
            case ev.DraftProposed():
                has_drafts = True
    recording.close()
    if not requests:
        raise SimulationError(f"{path} has no requests, so there is nothing to run.")
    if not any(any(request.prompt_token_ids) for request in requests.values()):
        raise SimulationError(f"{path} was written without token ids, so all prompts look equal.")
    for name, max_tokens in unfinished.items():
        tokens = requests[name].output_token_ids
        tokens += [0] * (max_tokens - len(tokens))
    is_vllms = header.source.startswith("vLLM") and not header.config["async_scheduling"]
    options = {name: getattr(header, name) for name in OPTIONS}
    is_vllms &= not has_drafts and not ends_in_step
    return TwinTrace(header.num_usable_blocks, options, [*requests.values()], is_vllms, has_drafts)


def play(
    trace: TwinTrace,
    add: Callable[[TwinRequest], object],
    abort: Callable[[str], object],
    step: Callable[[], object],
    is_busy: Callable[[], bool],
) -> None:
    """Call `add` and `abort` for each request before its steps, and `step` until all have ended."""
    pending, num_steps = trace.requests[::-1], 0
    aborted = [request for request in trace.requests if request.abort_step is not None]
    aborted.sort(key=attrgetter("abort_step"), reverse=True)
    while pending or is_busy():
        while pending and (pending[-1].arrival_step <= num_steps or not is_busy()):
            num_steps = max(num_steps, pending[-1].arrival_step)
            add(pending.pop())
        while aborted and aborted[-1].abort_step <= num_steps:
            abort(aborted.pop().name)
        step()
        num_steps += 1
