"""The kernel x-ray as an event: what each program of an attention kernel read and knew, for one
real decode.

The same fields as in `minivllm.kernels.xray`, as plain data: who plays a trace program by program
needs no torch.
"""

from typing import ClassVar, Literal

import msgspec

from minivllm.events.types.envelope import Event

RecordedDecode = Literal["this", "another"]


class TracedRead(msgspec.Struct, gc=False):
    """Neighbouring slots of one block, read together."""

    block_id: int
    first_slot: int
    """Within the block."""
    num_slots: int
    """From `first_slot` on."""


class TracedTile(msgspec.Struct):
    """One tile of keys that a program took in, and its softmax after it: one number for each query
    head of its group.
    """

    reads: list[TracedRead]
    """In the order of positions."""
    running_max: list[float]
    """The largest score so far, scaled, as in the exponent of e."""
    running_sum: list[float]
    """The sum of exp(score - running_max) so far."""


class TracedProgram(msgspec.Struct):
    """What one program did."""

    kernel: str
    program: tuple[int, int, int]
    """Its place in the grid."""
    kv_head: int | None
    """None, if it read no key."""
    tiles: list[TracedTile]
    """In the order in which it took them in."""


class KernelTraced(Event, tag="kernel.traced"):
    """Somebody asked for the x-ray of a sequence's next decode: one layer's attention over
    `num_tokens` tokens.

    The kernel (the rung `grouped`: a program for each key head) ran over copies of that very
    decode's queries and keys, whatever backend the engine has. `step` is the step of the decode,
    and its own token is not sampled yet.

    Where Triton is not installed the kernel cannot run. The event then holds a recording that was
    made on another machine and is shipped with minivllm: its layer, its tokens and its programs.
    """

    seq_id: str
    layer: int
    """Of the model, from 0."""
    num_tokens: int
    """How many tokens' keys and values the decode reads, its own among them."""
    programs: list[TracedProgram]
    """In the order in which they ran."""
    problem: str | None = None
    """Why there is nothing to show, in one sentence."""
    recorded: RecordedDecode | None = None
    """None if the kernel ran here. Else whether the recording is of this very decode (the lessons'
    own), or of another one.
    """
    rule: ClassVar[str] = "minivllm.engine.kernel_tracing:KernelTracer._answer"
