"""The kernel x-ray as an event: what each program of an attention kernel read in a real decode.

The fields are the same as in `minivllm.kernels.xray`, as plain data: a viewer needs no torch.
"""

from typing import ClassVar, Literal

import msgspec

from minivllm.events.types.envelope import Event

RecordedDecode = Literal["this", "another"]


class TracedRead(msgspec.Struct, gc=False):
    """Neighbouring slots of one block that were read together."""

    block_id: int
    first_slot: int
    """Index within the block."""
    num_slots: int
    """Number of slots that were read, from `first_slot` on."""


class TracedTile(msgspec.Struct):
    """One tile of keys that a program read, and the state of its softmax afterwards.

    The lists have one number for each query head of the program's group.
    """

    reads: list[TracedRead]
    """The reads of the tile, in the order of positions."""
    running_max: list[float]
    """Largest score up to this tile, scaled as in the exponent of e."""
    running_sum: list[float]
    """Sum of exp(score - running_max) up to this tile."""


class TracedProgram(msgspec.Struct):
    """The work of one program."""

    kernel: str
    program: tuple[int, int, int]
    """Index of the program in the grid."""
    kv_head: int | None
    """Key head that the program read; None if it read no keys."""
    tiles: list[TracedTile]
    """The tiles, in the order in which the program read them."""


class KernelTraced(Event, tag="kernel.traced"):
    """The x-ray of one decode of a sequence: one layer's attention over `num_tokens` tokens.

    Emitted on request. The kernel version `grouped` (one program for each key head) ran on copies
    of this decode's queries, keys and values, whatever backend the engine uses. `step` is the step
    of the decode; the decode's token is not sampled yet.

    Without Triton, the kernel cannot run. Layer, tokens and programs are then taken from a
    recording that ships with minivllm.
    """

    seq_id: str
    layer: int
    """Layer of the model, from 0."""
    num_tokens: int
    """Number of tokens that the decode attends to, including the token that it computes."""
    programs: list[TracedProgram]
    """The programs, in the order in which they ran."""
    problem: str | None = None
    """Why there is no trace; None if there is a trace."""
    recorded: RecordedDecode | None = None
    """None if the kernel ran here. `this` if the trace is a recording of the same decode (in the
    lessons). `another` if it is a recording of another decode.
    """
    rule: ClassVar[str] = "minivllm.engine.watchers:KernelTracer._answer"
