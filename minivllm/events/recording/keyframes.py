"""`Keyframes`: packed views along a recording, from which a seek starts.

A keyframe is a view packed into pieces of bytes. Pieces that are equal in neighbouring keyframes
are held once, so a codec that cuts well (`fold_codec.py`) makes keyframes of a fifth of their size.
What all of them may take together is bounded: when it is used up, every second one goes and the
next come half as often. So a longer recording has longer ways from keyframe to target, and never
more memory.

Knows no events and no files. The easy thing to get wrong is to count events between keyframes: an
event may be forty bytes or a prompt of a hundred thousand tokens, and the way is as long as what
must be decoded on it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from minivllm.events.state import EngineState
from minivllm.events.types import Event, LogHeader

SPACING_BYTES = 1 << 17
"""Of the recording, between two keyframes: some thousand events, half a millisecond of decoding and
folding.
"""
MAX_BYTES = 192 << 20
"""For all keyframes of a recording: a million events keep their spacing, ten million have sixteen
times as much.
"""
_PIECE_OVERHEAD = 41
"""Bytes of memory that a piece takes besides its content: the object and one reference to it."""


class View(Protocol):
    """What can be shown of a run."""

    def apply(self, event: Event) -> None: ...


V = TypeVar("V", bound=View)


class ViewCodec(Protocol[V]):
    """How a recording makes, packs and restores its views."""

    def new(self, header: LogHeader, state: EngineState | None) -> V:
        """The view before the first event; it may keep parts of `state`, which is None for an idle
        engine.
        """

    def pack(self, view: V) -> Sequence[bytes]:
        """All of `view`. Equal pieces of neighbouring keyframes take memory once."""

    def restore(self, header: LogHeader, pieces: Sequence[bytes]) -> V:
        """A new view, as it was when `pack` packed it."""


class Keyframe(NamedTuple):
    """A view after the first `count` events."""

    count: int
    pieces: tuple[bytes, ...]
    """A tuple, because the garbage collector would visit every entry of a list, again and again."""
    num_new_bytes: int
    """What it takes beyond what it shares with the keyframe before it."""


class Keyframes:
    """In the order of the recording; the first is never thinned out."""

    def __init__(self, spacing: int = SPACING_BYTES, max_bytes: int = MAX_BYTES) -> None:
        self._spacing = spacing
        self._max_bytes = max_bytes
        self._frames: list[Keyframe] = []
        self._counts: list[int] = []
        self._last_pieces: dict[bytes, bytes] = {}
        self._next_offset = 0
        self.num_bytes = 0
        """Memory that all of them take."""

    def __len__(self) -> int:
        return len(self._frames)

    def is_due(self, offset: int) -> bool:
        """True if a keyframe should be taken before the event that begins at `offset`."""
        return offset >= self._next_offset

    def add(self, count: int, offset: int, pieces: Sequence[bytes]) -> None:
        """A view after the first `count` events, which end before byte `offset` of the
        recording.
        """
        known = self._last_pieces
        shared = tuple([known.get(piece, piece) for piece in pieces])
        self._append(Keyframe(count, shared, _num_new_bytes(shared, known)))
        self._last_pieces = dict(zip(shared, shared, strict=True))
        while self.num_bytes > self._max_bytes and len(self._frames) > 2:
            self._thin_out()
        # Packing a large view takes a while. So that indexing is not all packing, it waits for a
        # share of as many bytes.
        self._next_offset = offset + max(self._spacing, sum(map(len, pieces)) // 8)

    def before(self, count: int) -> Keyframe:
        """The last one that holds no more than the first `count` events."""
        return self._frames[bisect_right(self._counts, count) - 1]

    def _append(self, frame: Keyframe) -> None:
        self._frames.append(frame)
        self._counts.append(frame.count)
        self.num_bytes += frame.num_new_bytes

    def _thin_out(self) -> None:
        kept = self._frames[::2]
        self._spacing *= 2
        self._frames, self._counts, self.num_bytes = [], [], 0
        known: set[bytes] = set()
        for frame in kept:
            # A piece that came with a dropped keyframe counts for the next one that holds it.
            self._append(frame._replace(num_new_bytes=_num_new_bytes(frame.pieces, known)))
            known = set(frame.pieces)


def _num_new_bytes(pieces: Sequence[bytes], known: dict[bytes, bytes] | set[bytes]) -> int:
    new = set(pieces).difference(known)
    return sum(map(len, new)) + _PIECE_OVERHEAD * len(new)
