"""`TwinTrace`: the requests of a recording, as both engines of a twin run get them.

A request is one sample: its prompt, the tokens that it got, and the step before which it arrived.
No model is needed, because the tokens are given. What the recording's scheduler decided is left
out: both sides decide anew.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from minivllm.errors import SimulationError
from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording
from minivllm.text import short_name

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


class TwinTrace(msgspec.Struct):
    num_blocks: int
    """Blocks that sequences can get. vLLM has one more, its null block."""
    options: dict[str, Any]  # `OPTIONS` of both engines
    requests: list[TwinRequest]  # in the order of arrival


def read_trace(path: Path) -> TwinTrace:
    """Raises `SimulationError` if no request of the recording got a token."""
    recording, arrived, outputs = Recording(path), {}, {}
    for event in recording.events(0, len(recording)):
        match event:
            case ev.RequestArrived():
                arrived[event.seq_id] = event.step, event.prompt_token_ids, event.priority
            case ev.RequestForked():
                arrived[event.seq_id] = arrived[event.parent]
                outputs[event.seq_id] = list(outputs.get(event.parent, ()))
            case ev.TokenSampled():
                outputs.setdefault(event.seq_id, []).append(event.token_id)
    header = recording.header
    recording.close()
    requests = [
        TwinRequest(short_name(name), list(prompt), outputs[name], step, priority)
        for name, (step, prompt, priority) in arrived.items()
        if outputs.get(name)
    ]
    if not requests:
        raise SimulationError(f"No request of {path} has got a token, so there is nothing to run.")
    options = {name: getattr(header, name) for name in OPTIONS}
    return TwinTrace(header.num_usable_blocks, options, requests)


def play(
    trace: TwinTrace,
    add: Callable[[TwinRequest], object],
    step: Callable[[], object],
    is_busy: Callable[[], bool],
) -> None:
    """Call `add` for each request before its step, and `step` until all have ended."""
    pending, num_steps = trace.requests[::-1], 0
    while pending or is_busy():
        while pending and (pending[-1].arrival_step <= num_steps or not is_busy()):
            num_steps = max(num_steps, pending[-1].arrival_step)
            add(pending.pop())
        step()
        num_steps += 1
