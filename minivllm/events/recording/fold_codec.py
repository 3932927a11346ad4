"""`FOLD`: packs a fold into pieces of bytes and restores it, for keyframes of a recording.

Most of a fold never changes again: prompts, earlier output, finished sequences. So a fold is packed
into many small pieces. Neighbouring keyframes store equal pieces only once: of half a megabyte,
about 80 kilobytes are new.

Token ids stay in arrays. As lists of numbers, they took nine tenths of the time of a seek.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from minivllm.events.fold import Fold
from minivllm.events.state import BlockState, EngineState, FinishedSequence
from minivllm.events.types import LogHeader

_BLOCKS_PER_PIECE = 16
_BYTES_PER_PIECE = 512


class _Head(msgspec.Struct):
    """The first piece: everything that changes often, and the number of all other pieces."""

    state: EngineState
    """The state without blocks, free queue, token pieces, prompts, output tokens and texts."""
    last_seq: int
    t: float
    lost_events: int
    num_token_pieces: int
    num_block_pieces: int
    num_finished: int
    num_output_pieces: list[tuple[int, int]]
    """For each sequence: the number of pieces of its output tokens, and of its text."""


class FoldCodec:
    def new(self, header: LogHeader, state: EngineState | None) -> Fold:
        return Fold(header, state)

    def pack(self, fold: Fold) -> list[bytes]:
        pieces = [array("I", fold.free_queue).tobytes()]
        blocks = fold.blocks + fold.host_blocks
        for start in range(0, len(blocks), _BLOCKS_PER_PIECE):
            pieces.append(msgspec.msgpack.encode(blocks[start : start + _BLOCKS_PER_PIECE]))
        num_block_pieces = len(pieces) - 1
        pieces += map(msgspec.msgpack.encode, fold.history)
        pieces += [request.prompt_token_ids.tobytes() for request in fold.requests.values()]
        counts = []
        for sequence in fold.sequences.values():
            tokens = _cut(sequence.output_token_ids.tobytes())
            text = _cut(sequence.text.encode())
            pieces += tokens
            pieces += text
            counts.append((len(tokens), len(text)))
        replace = msgspec.structs.replace
        state = EngineState(
            step=fold.step,
            blocks=[],
            free_queue=[],
            waiting=fold.waiting,
            running=fold.running,
            requests={
                name: replace(request, prompt_token_ids=[])
                for name, request in fold.requests.items()
            },
            sequences={
                name: replace(sequence, output_token_ids=[], text="")
                for name, sequence in fold.sequences.items()
            },
            budget=fold.budget,
            scheduled=fold.scheduled,
            max_num_seqs=fold.max_num_seqs,
            max_num_batched_tokens=fold.max_num_batched_tokens,
            counters=fold.counters,
            host_queue=list(fold.host_queue),
            loads=fold.loads,
            leases=fold.leases,
        )
        numbers = fold.last_seq, fold.t, fold.lost_events, fold.num_token_pieces, num_block_pieces
        head = _Head(state, *numbers, len(fold.history), counts)
        return [msgspec.msgpack.encode(head), *pieces]

    def restore(self, header: LogHeader, pieces: Sequence[bytes], newest: Fold) -> Fold:
        """Return a new fold, equal to the packed fold. It shares the texts of tokens with `newest`.

        A vocabulary has fifty thousand texts. Restoring them would take most of a seek's time.
        """
        rest = iter(pieces)
        head = _HEAD_DECODER.decode(next(rest))
        state = head.state
        state.free_queue = array("I", next(rest)).tolist()
        for piece in islice(rest, head.num_block_pieces):
            state.blocks += _BLOCKS_DECODER.decode(piece)
        own = len(state.blocks) - header.num_cpu_blocks
        state.blocks, state.host_blocks = state.blocks[:own], state.blocks[own:]
        history = [_FINISHED_DECODER.decode(piece) for piece in islice(rest, head.num_finished)]
        for request in state.requests.values():
            request.prompt_token_ids = array("I", next(rest))
        for sequence, (num_tokens, num_text) in zip(
            state.sequences.values(), head.num_output_pieces, strict=True
        ):
            sequence.output_token_ids = array("I", _join(rest, num_tokens))
            sequence.text = _join(rest, num_text).decode()
        state.token_pieces = newest.token_pieces
        fold = Fold(header, state)
        fold.num_token_pieces = head.num_token_pieces
        fold.history.extend(history)
        fold.last_seq, fold.t, fold.lost_events = head.last_seq, head.t, head.lost_events
        return fold


def _cut(data: bytes) -> list[bytes]:
    """Cut `data` into pieces. When data is appended, all pieces but the last stay the same."""
    return [
        data[start : start + _BYTES_PER_PIECE] for start in range(0, len(data), _BYTES_PER_PIECE)
    ]


def _join(pieces: Iterator[bytes], number: int) -> bytes:
    return b"".join(islice(pieces, number))


_HEAD_DECODER = msgspec.msgpack.Decoder(_Head)
_BLOCKS_DECODER = msgspec.msgpack.Decoder(list[BlockState])
_FINISHED_DECODER = msgspec.msgpack.Decoder(FinishedSequence)

FOLD = FoldCodec()
"""The codec of recordings that show the engine's state."""
