"""The kernel x-ray as an event: what each program of an attention kernel read in one real decode.

The fields are those of `minivllm.kernels.xray`, but as plain data: a viewer needs no torch.
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
    """Number of slots, from `first_slot` on."""


class TracedTile(msgspec.Struct):
    """One tile of keys that a program read, and the state of its softmax afterwards.

    The lists have one number for each query head of the program's group.
    """

    reads: list[TracedRead]
    """In the order of positions."""
    running_max: list[float]
    """Greatest score so far, scaled, as in the exponent of e."""
    running_sum: list[float]
    """Sum of exp(score - running_max) so far."""


class TracedProgram(msgspec.Struct):
    """The work of one program."""

    kernel: str
    program: tuple[int, int, int]
    """Its index in the grid."""
    kv_head: int | None
    """None if it read no keys."""
    tiles: list[TracedTile]
    """In the order in which it read them."""


class KernelTraced(Event, tag="kernel.traced"):
    """The x-ray of one decode of a sequence: one layer's attention over `num_tokens` tokens.

    Emitted on request. The kernel version `grouped` (one program for each key head) ran on copies
    of this decode's queries, keys and values, whatever backend the engine uses. `step` is the step
    of the decode; its token is not sampled yet.

    Without Triton, the kernel cannot run. The event then has a recording that ships with minivllm:
    its layer, its tokens and its programs.
    """

    seq_id: str
    layer: int
    """Layer of the model, from 0."""
    num_tokens: int
    """Number of tokens that the decode attends to, including its own."""
    programs: list[TracedProgram]
    """In the order in which they ran."""
    problem: str | None = None
    """Why there is no trace."""
    recorded: RecordedDecode | None = None
    """None if the kernel ran here. Otherwise `this` if the recording is of this decode (in the
    lessons), `another` if not.
    """
    rule: ClassVar[str] = "minivllm.engine.kernel_tracing:KernelTracer._answer"
