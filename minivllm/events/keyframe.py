"""Keyframes: a fold packed into bytes, so that a recording can be entered in its middle.

A seek restores the last keyframe before its target and folds on from there. Knows the fold and nothing of
files. The easy thing to get wrong is the prompts: as lists of token ids they were most of what a seek
decoded, and no event ever changes one, so they lie beside the state as plain bytes.
"""

from array import array

import msgspec

from minivllm.events.fold import Fold
from minivllm.events.state import EngineState, FinishedSequence
from minivllm.events.types import LogHeader


class _Keyframe(msgspec.Struct):
    """All of a fold, in a form that can be packed away and restored."""

    state: EngineState
    prompts: dict[str, bytes]
    """The requests' prompt token ids, four bytes each, and not in `state`: decoding lists of them was most of a seek."""
    history: list[FinishedSequence]
    last_seq: int
    t: float
    lost_events: int


def pack(fold: Fold) -> bytes:
    """Everything that `fold` knows; `restore` brings it back."""
    prompts = {name: array("I", request.prompt_token_ids).tobytes() for name, request in fold.requests.items()}
    state = fold.state
    state.requests = {
        name: msgspec.structs.replace(request, prompt_token_ids=[]) for name, request in fold.requests.items()
    }
    frame = _Keyframe(state, prompts, list(fold.history), fold.last_seq, fold.t, fold.lost_events)
    return msgspec.msgpack.encode(frame)


def restore(header: LogHeader, packed: bytes) -> Fold:
    """A fold as it was when `pack` packed it."""
    frame = _DECODER.decode(packed)
    for name, prompt in frame.prompts.items():
        frame.state.requests[name].prompt_token_ids = array("I", prompt).tolist()
    fold = Fold(header, frame.state)
    fold.history.extend(frame.history)
    fold.last_seq, fold.t, fold.lost_events = frame.last_seq, frame.t, frame.lost_events
    return fold


_DECODER = msgspec.msgpack.Decoder(_Keyframe)
