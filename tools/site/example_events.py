"""Finds a real line for each kind of event, in the committed recordings or from an engine.

The engine emits the kinds of events that the recordings lack. It runs with random weights
(`tiny-random`) and the virtual clock. Floats are rounded, because their last digits differ between
processors.
"""

import io
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from page_text import ROOT

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import InvariantError
from minivllm.events import types as ev
from minivllm.events.recording.lines import encode_event
from minivllm.events.recording.log import LogWriter
from minivllm.sampling_params import SamplingParams, StructuredOutputsParams

RECORDINGS = (
    "memory-pressure.jsonl",
    "shared-prefix.jsonl",
    "parallel-sampling.jsonl",
    "beams.jsonl",
)
_DIGITS = 3


def example_lines() -> dict[str, str]:
    """Return a line for `meta` and every kind. Lines of recordings win: their texts are real."""
    recordings = [
        (ROOT / "docs/assets/recordings" / name).read_text(encoding="utf-8").splitlines()
        for name in RECORDINGS
    ]
    return _best(_engine_lines()) | _best(line for lines in recordings for line in lines)


def _best(lines: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        tag = line.removeprefix('{"ev":"').split('"', 1)[0]
        if tag not in found or _worth(line) > _worth(found[tag]):
            found[tag] = line
    return found


def _worth(line: str) -> tuple[int, int]:
    """Prefer the line with more fields (defaults are left out), then the shorter line."""
    return len(json.loads(line)), -len(line)


def _engine_lines() -> list[str]:
    config = EngineConfig(
        model="tiny-random", device="cpu", dtype="float32", attention_backend="torch",
        max_model_len=64, num_gpu_blocks_override=16, block_size=8, max_num_batched_tokens=64,
        check_invariants=True,
    )  # fmt: skip
    engine = LLMEngine.from_config(config, clock=VirtualClock())
    events: list[ev.Event] = []
    engine.subscribe(events.append)
    disk = _FullDisk()
    log = LogWriter(disk, engine.log_header())
    engine.subscribe(log.write)
    greedy = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
    engine.add_request("ada", "Hello, world", greedy)
    engine.add_request("bob", "Good morning", greedy)
    engine.step()
    engine.set_option("max_num_seqs", 8)
    engine.record_attention_mass(True)
    engine.trace_kernel("ada.0")
    disk.is_full = True
    engine.step()
    disk.is_full = False
    engine.abort_request("bob")
    engine.record_attention_mass(False)
    while engine.has_unfinished_requests():
        engine.step()
    engine.add_request("eve", "Hello, world", _stop_that_does_not_come(events, greedy))
    while engine.has_unfinished_requests():
        engine.step()
    letter = StructuredOutputsParams(regex="[a-z]")
    draws = SamplingParams(temperature=0.8, top_k=4, max_tokens=1, structured_outputs=letter)
    engine.add_request("fay", "Hello, world", draws)
    engine.explain_tokens("fay.0")
    engine.step()
    engine.add_request("zoe", "Hello, world", greedy)
    engine.step()
    engine.core.scheduler.kv_cache_manager.pool.blocks[0].ref_cnt += 1
    with suppress(InvariantError):
        engine.step()
    log.flush()
    gaps = [
        line for line in disk.getvalue().decode().splitlines() if line.startswith('{"ev":"log.gap"')
    ]
    events += _events_of_drafts(config)
    return gaps + [_rounded(encode_event(one).decode().strip()) for one in events]


def _events_of_drafts(config: EngineConfig) -> list[ev.Event]:
    """Return the events of a text that repeats itself, drafted by prompt lookup."""
    lookup = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 2}
    engine = LLMEngine.from_config(replace(config, speculative_config=lookup), clock=VirtualClock())
    events: list[ev.Event] = []
    engine.subscribe(events.append)
    greedy = SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True)
    engine.add_request("gus", "Hello, hello, hello", greedy)
    while engine.has_unfinished_requests():
        engine.step()
    return [one for one in events if isinstance(one, ev.DraftProposed | ev.DraftVerified)]


def _stop_that_does_not_come(events: list[ev.Event], params: SamplingParams) -> SamplingParams:
    """Return `params` with a stop string whose first character ends ada's text.

    The stop string never appears whole, so the engine withholds that character until the end.
    """
    text = "".join(
        one.text for one in events if isinstance(one, ev.TokenSampled) and one.seq_id == "ada.0"
    )
    return SamplingParams(
        temperature=params.temperature,
        max_tokens=params.max_tokens,
        ignore_eos=True,
        stop=[f"{text[-1]} and so on"],
    )


def _rounded(line: str) -> str:
    return json.dumps(
        json.loads(line, parse_float=lambda text: round(float(text), _DIGITS)),
        separators=(",", ":"),
        ensure_ascii=False,
    )


class _FullDisk(io.BytesIO):
    is_full = False

    def write(self, data: bytes) -> int:
        return 0 if self.is_full else super().write(data)
