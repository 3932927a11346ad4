"""Random request traces for the whole engine on the virtual clock, as lines of its event log.

A trace is plain data: engine options, and requests with the steps in which they arrive. Pools are
tiny and prompts share beginnings, so hits, evictions and preemptions are frequent.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.admission import RequestQueue
from minivllm.engine.engine import LLMEngine
from minivllm.errors import InvalidRequestError
from minivllm.events.recording.lines import encode_event, encode_header
from minivllm.events.types import Event
from minivllm.lessons.checker.cases.draw import Draw
from minivllm.lessons.checker.cases.toy import ToyProposer, ToyRunner, ToyTokenizer
from minivllm.sampling_params import RequestOutputKind, SamplingParams

MAX_STEPS = 300
_NOT_OPTIONS = ("num_blocks", "max_model_len", "requests", "wrong_every")
Trace = dict[str, Any]


def draw_request(draw: Draw) -> dict[str, Any]:
    """Draw a request whose prompt has `alike` shared tokens, followed by `own` other tokens."""
    return {
        "alike": draw.integer(0, 9),
        "own": draw.integer(1, 6),
        "max_tokens": draw.integer(1, 6),
        "arrives": draw.integer(0, 8),
        "letter": draw.integer(1, 3),
    }


def requests_with_samples(draw: Draw) -> dict[str, Any]:
    """Several samples share blocks and copy them."""
    return {**draw_request(draw), "n": draw.integer(1, 3)}


def requests_with_priorities(draw: Draw) -> dict[str, Any]:
    return {**draw_request(draw), "priority": draw.integer(0, 3)}


def draw_trace(draw: Draw, element: Any = draw_request, **fixed: Any) -> Trace:
    """Draw a trace. element: draws one request; fixed: options with a fixed value."""
    return {
        "num_blocks": draw.integer(6, 14),
        "block_size": draw.integer(2, 4),
        "max_num_seqs": draw.integer(3, 5),
        "max_num_batched_tokens": draw.integer(4, 24),
        "enable_prefix_caching": draw.boolean(),
        **fixed,
        "requests": draw.list_of(element, 1, 6),
    }


def describe_trace(case: Trace) -> str:
    """The engine's options, and a line for each request."""
    options = (f"{name}={value}" for name, value in case.items() if name != "requests")
    lines = [f"an engine with {', '.join(options)}"]
    for number, entry in enumerate(case["requests"]):
        samples = f", {entry['n']} samples" if entry.get("n", 1) > 1 else ""
        shared = f", the first {entry['alike']} shared with the others" if entry["alike"] else ""
        what = f"{len(_prompt(entry))} tokens{shared}; max_tokens {entry['max_tokens']}{samples}"
        lines.append(f"r{number} arrives before step {entry['arrives'] + 1}: {what}")
    return "\n".join(lines)


def _prompt(entry: dict[str, Any]) -> list[int]:
    own = (10 + entry["letter"] + i % 18 for i in range(entry["own"]))  # below the toy model's EOS
    return [*range(1, entry["alike"] + 1), *own]


def build_engine(case: Trace, waiting: RequestQueue | None = None) -> LLMEngine:
    """An engine with the toy model that checks all invariants after each step."""
    options = {name: value for name, value in case.items() if name not in _NOT_OPTIONS}
    num_blocks, size = case["num_blocks"], case["block_size"]
    config = EngineConfig(**{"model": "toy", "check_invariants": True, **options})
    runner = ToyRunner(num_blocks, size, case.get("max_model_len", num_blocks * size))
    proposer = ToyProposer(case["wrong_every"]) if "wrong_every" in case else None
    parts = {"clock": VirtualClock(), "proposer": proposer, "waiting": waiting}
    return LLMEngine(config, runner, ToyTokenizer(), **parts)


def run_trace(case: Trace, engine: LLMEngine | None = None) -> Iterator[str]:
    """Run the case, and yield every event as a line of a recording."""
    engine = build_engine(case) if engine is None else engine
    events: list[Event] = []
    engine.subscribe(events.append)
    pending = sorted(enumerate(case["requests"]), key=lambda numbered: numbered[1]["arrives"])
    for step in range(MAX_STEPS):
        while pending and pending[0][1]["arrives"] <= step:
            _add(engine, *pending.pop(0))
        try:
            engine.step()
        finally:
            # Report the events of a failed step too, because they show the cause.
            yield from (encode_event(event).decode().rstrip() for event in events)
            events.clear()
        if not pending and not engine.has_unfinished_requests():
            return
    yield f"still unfinished after {MAX_STEPS} steps"


def _add(engine: LLMEngine, number: int, entry: dict[str, Any]) -> None:
    own = {"max_tokens": entry["max_tokens"], "n": entry.get("n", 1)}
    params = SamplingParams(temperature=0, output_kind=RequestOutputKind.FINAL_ONLY, **own)
    prompt = {"prompt_token_ids": _prompt(entry)}
    with suppress(InvalidRequestError):  # too large for this pool or batch, on both sides
        engine.add_request(f"r{number}", prompt, params, entry.get("priority", 0))


def write_recording(case: Trace, lines: list[str], path: Path) -> None:
    header = encode_header(build_engine(case).log_header())
    events = [line for line in lines if line.startswith("{")]
    path.write_bytes(header + "".join(f"{line}\n" for line in events).encode(errors="replace"))
