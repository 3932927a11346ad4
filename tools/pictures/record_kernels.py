#!/usr/bin/env python3
"""Runs lessons 17 and 18 with Triton, and stores what their kernels did for use without Triton.

    tools/pictures/record_kernels.py
        # minivllm/runtime/attention/recorded_xray.json and
          lessons/shown/recorded_kernels.json, in place

Floats are rounded, because their last digits differ between processors. A test compares the
committed files with new ones.
"""

from pathlib import Path
from typing import Any

import msgspec

from minivllm.events import types as ev
from minivllm.kernels.attention.decode_split import choose_num_splits
from minivllm.lessons.course.l18_kernel_ladder import CONTEXT, LONG_CONTEXT
from minivllm.lessons.course.library import find_lesson
from minivllm.lessons.shown.kernel_reads import Shape, look
from minivllm.lessons.shown.recorded import RecordedKernels
from minivllm.lessons.teacher.lesson_engine import LessonEngine, ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.runtime.attention.xray import RecordedTrace

ROOT = Path(__file__).resolve().parents[2]
XRAY = ROOT / "minivllm/runtime/attention/recorded_xray.json"
KERNELS = ROOT / "lessons/shown/recorded_kernels.json"
LESSONS = ("paged-attention", "kernel-ladder")
DIGITS = 5


class WatchedShelf(ModelShelf):
    def __init__(self) -> None:
        super().__init__()
        self.engines: list[LessonEngine] = []

    def engine(self, options: dict[str, object]) -> LessonEngine:
        self.engines.append(super().engine(options))
        return self.engines[-1]


def record() -> tuple[list[RecordedTrace], RecordedKernels]:
    """Return the contents of both files."""
    shelf = WatchedShelf()
    for name in LESSONS:
        player = LessonPlayer(find_lesson(name), shelf)
        while not player.over:
            player.pass_over()
        player.close()
    traced = [event for engine in shelf.engines for event in engine.events_of(ev.KernelTraced)]
    traces = [
        RecordedTrace(trace.layer, trace.num_tokens, _rounded(msgspec.to_builtins(trace.programs)))
        for trace in traced
    ]
    config = shelf.engines[0].loaded.config
    shape = Shape(config.num_attention_heads, config.num_key_value_heads, config.head_size, CONTEXT)
    splits = choose_num_splits(1, config.num_key_value_heads, LONG_CONTEXT)
    (by_triton,) = [engine for engine in shelf.engines if engine.name == "triton"]
    return traces, RecordedKernels(shape, look(shape), splits, by_triton.output_tokens("ada"))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value


def main() -> None:
    for path, value in zip((XRAY, KERNELS), record(), strict=True):
        path.write_bytes(msgspec.json.encode(value) + b"\n")
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
