"""`Keyframes`: packed views along a recording, from which a seek starts.

A keyframe is a view packed into pieces of bytes. Neighbouring keyframes share equal pieces. With
`fold_codec.py`, this reduces the memory to a fifth. At the memory limit, every second keyframe is
dropped and the spacing doubles, so that seeks in a longer recording take longer.

The spacing is in bytes, which determine the decoding time: an event may take forty bytes, or
contain a prompt of a hundred thousand tokens.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from minivllm.events.state import EngineState
from minivllm.events.types import Event, LogHeader

SPACING_BYTES = 1 << 17
"""Bytes of the recording between two keyframes: about a thousand events, or half a millisecond of
decoding and folding.
"""
MAX_BYTES = 192 << 20
"""Memory limit for all keyframes of a recording, in bytes.

With a million events, the spacing never doubles. With ten million, it becomes sixteen times as
large.
"""
_PIECE_OVERHEAD = 41
"""Bytes of memory for a piece besides its content."""


class View(Protocol):
    """A state that can be shown, built from events."""

    def apply(self, event: Event) -> None: ...


V = TypeVar("V", bound=View)


class ViewCodec(Protocol[V]):
    """How a recording creates, packs and restores its views."""

    def new(self, header: LogHeader, state: EngineState | None) -> V:
        """Create the view before the first event.

        state: None for an idle engine; the view may keep parts of `state`
        """

    def pack(self, view: V) -> Sequence[bytes]:
        """Pack all of `view`. A piece that is also in the last keyframe takes no memory."""

    def restore(self, header: LogHeader, pieces: Sequence[bytes], newest: V) -> V:
        """Create a new view, equal to the packed view.

        newest: a view of the same recording at a later moment; share with it what never changes
        """


class Keyframe(NamedTuple):
    """A packed view after the first `count` events."""

    count: int
    pieces: tuple[bytes, ...]
    """A tuple, because the garbage collector would visit a list of bytes again and again."""
    num_new_bytes: int
    """Memory for the pieces that the previous keyframe does not have."""


class Keyframes:
    """Keyframes in the order of the recording. The first keyframe is never dropped."""

    def __init__(self, spacing: int = SPACING_BYTES, max_bytes: int = MAX_BYTES) -> None:
        self._spacing = spacing
        self._max_bytes = max_bytes
        self._frames: list[Keyframe] = []
        self._counts: list[int] = []
        self._last_pieces: dict[bytes, bytes] = {}
        self._next_offset = 0
        self.num_bytes = 0
        """Memory that all keyframes take, in bytes."""

    def __len__(self) -> int:
        return len(self._frames)

    def is_due(self, offset: int) -> bool:
        """Whether to add a keyframe before the event at byte `offset`."""
        return offset >= self._next_offset

    def add(self, count: int, offset: int, pieces: Sequence[bytes]) -> None:
        """Add a view after the first `count` events, which end before byte `offset`."""
        known = self._last_pieces
        shared = tuple([known.get(piece, piece) for piece in pieces])
        self._append(Keyframe(count, shared, _num_new_bytes(shared, known)))
        self._last_pieces = dict(zip(shared, shared, strict=True))
        while self.num_bytes > self._max_bytes and len(self._frames) > 2:
            self._thin_out()
        # Packing a large view takes time, so after a large view the next keyframe is farther away.
        self._next_offset = offset + max(self._spacing, sum(map(len, pieces)) // 8)

    def before(self, count: int) -> Keyframe:
        """Return the last keyframe that contains at most the first `count` events."""
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
            # If a dropped keyframe was the first with a piece, the next keyframe that has the piece
            # now counts it as new.
            self._append(frame._replace(num_new_bytes=_num_new_bytes(frame.pieces, known)))
            known = set(frame.pieces)


def _num_new_bytes(pieces: Sequence[bytes], known: dict[bytes, bytes] | set[bytes]) -> int:
    new = set(pieces).difference(known)
    return sum(map(len, new)) + _PIECE_OVERHEAD * len(new)
