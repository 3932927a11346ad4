"""`Keyframes`: packed views along a recording, from which a seek starts.

A keyframe is a view packed into pieces of bytes. Neighbouring keyframes share equal pieces, so that
a good codec (`fold_codec.py`) needs a fifth of the memory. At the memory limit, every second
keyframe is dropped and the spacing doubles: seeks in a longer recording take longer.

The spacing is in bytes and not in events, because bytes determine the decoding time: an event may
have forty bytes or a prompt of a hundred thousand tokens.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from minivllm.events.state import EngineState
from minivllm.events.types import Event, LogHeader

SPACING_BYTES = 1 << 17
"""Bytes of the recording between two keyframes.

About a thousand events, or half a millisecond of decoding and folding.
"""
MAX_BYTES = 192 << 20
"""Memory for all keyframes of a recording.

A million events keep their spacing; with ten million it is sixteen times as large.
"""
_PIECE_OVERHEAD = 41
"""Bytes of memory that a piece takes besides its content: an object and a reference to it."""


class View(Protocol):
    """A state that can be shown, built from events."""

    def apply(self, event: Event) -> None: ...


V = TypeVar("V", bound=View)


class ViewCodec(Protocol[V]):
    """How a recording creates, packs and restores its views."""

    def new(self, header: LogHeader, state: EngineState | None) -> V:
        """Create the view before the first event.

        state: None for an idle engine; the view may keep parts of it
        """

    def pack(self, view: V) -> Sequence[bytes]:
        """Pack all of `view`. Pieces equal to those of the last keyframe take no memory."""

    def restore(self, header: LogHeader, pieces: Sequence[bytes]) -> V:
        """Create a new view, equal to the one that was packed."""


class Keyframe(NamedTuple):
    """A packed view after the first `count` events."""

    count: int
    pieces: tuple[bytes, ...]
    """A tuple: the garbage collector would visit every entry of a list again and again."""
    num_new_bytes: int
    """Memory beyond what it shares with the keyframe before."""


class Keyframes:
    """Keyframes in the order of the recording. The first one is never dropped."""

    def __init__(self, spacing: int = SPACING_BYTES, max_bytes: int = MAX_BYTES) -> None:
        self._spacing = spacing
        self._max_bytes = max_bytes
        self._frames: list[Keyframe] = []
        self._counts: list[int] = []
        self._last_pieces: dict[bytes, bytes] = {}
        self._next_offset = 0
        self.num_bytes = 0
        """Memory that all of them take, in bytes."""

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
        # Packing a large view takes time, so a larger view makes the next keyframe later.
        self._next_offset = offset + max(self._spacing, sum(map(len, pieces)) // 8)

    def before(self, count: int) -> Keyframe:
        """Return the last keyframe with no more than the first `count` events."""
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
            # A piece of a dropped keyframe counts for the next keyframe that has it.
            self._append(frame._replace(num_new_bytes=_num_new_bytes(frame.pieces, known)))
            known = set(frame.pieces)


def _num_new_bytes(pieces: Sequence[bytes], known: dict[bytes, bytes] | set[bytes]) -> int:
    new = set(pieces).difference(known)
    return sum(map(len, new)) + _PIECE_OVERHEAD * len(new)
