"""Recorded results of Triton's kernels for lessons 17 and 18, for machines without Triton.

`tools/pictures/record_kernels.py` makes the recording, which fits only the model `house`. The
traces for the x-ray are in `minivllm.runtime.attention.xray`.
"""

from functools import cache
from importlib.resources import files
from importlib.util import find_spec

import msgspec

from minivllm.errors import LessonError, TritonMissingError
from minivllm.events import types as ev
from minivllm.lessons.shown.kernel_reads import Look, Shape, look
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Teacher

FILE = "recorded_kernels.json"
NOTICE = (
    "Before we begin: Triton is **not installed here**, so its kernels cannot run on this machine."
    " This lesson shows a **recording** of them, made in the same steps on another machine."
    " Everything else is computed here, while you watch."
)
"""The first page of a lesson about kernels if Triton is not installed."""


class RecordedKernels(msgspec.Struct):
    shape: Shape
    looks: dict[str, Look]
    """Lesson 18: what each kernel version read, for a decode of this shape."""
    num_splits: int
    """Lesson 18: the number of parts into which the kernel `split` cuts a long context."""
    tokens: list[int]
    """Lesson 17: the output tokens with the attention backend `triton`."""


def triton_is_here() -> bool:
    """Whether Triton is installed. Does not import it: that is slow and fixes how kernels run."""
    return find_spec("triton") is not None


@cache
def recorded() -> RecordedKernels:
    return msgspec.json.decode(files(__package__).joinpath(FILE).read_bytes(), type=RecordedKernels)


def look_or_recorded(shape: Shape) -> dict[str, Look]:
    """What each kernel version reads: traced here, or taken from the recording without Triton.

    Raises `TritonMissingError` if Triton is missing and the shape differs from the recorded shape.
    """
    if triton_is_here():
        return look(shape)
    if shape != recorded().shape:
        raise TritonMissingError("This lesson with a model of another shape than house's")
    return recorded().looks


def xray_next_step(teacher: Teacher, engine: LessonEngine) -> ev.KernelTraced:
    """Run a step in which the kernel x-ray traces ada's decode, and highlight the x-ray panel.

    Raises `LessonError` if the kernel could not be traced.
    """
    teacher.focus("xray")
    engine.engine.trace_kernel("ada.0")
    engine.step()
    trace = engine.events_of(ev.KernelTraced)[-1]
    if trace.problem is not None:
        raise LessonError(trace.problem)
    if trace.recorded is not None:
        teacher.check(
            "the recording fits this step: its blocks, its tokens and its largest scores",
            trace.recorded == "this",
        )
    return trace
