"""`EventRing`: the engine's newest events, written by its thread and read by others without a lock.

The engine stores an event in a slot and then moves one number; whoever reads asks for events by
number and finds out by the event itself whether it is still the one. So a reader costs the engine
nothing, however many there are and however slow they are. Each event is turned into bytes once, by
the first who reads it.

The easy thing to get wrong is memory. A slot holds any event, and one that brings a prompt of a
million tokens is not like the others: prompts are counted, and the oldest are forgotten when they
are too many tokens together.
"""

from collections import deque
from typing import NamedTuple

from minivllm.events.recording.lines import encode_event
from minivllm.events.types import Event, Gap, RequestArrived

BYTES_PER_PIECE = 1 << 18
LONGEST_KEPT = 1024
"""Bytes of one event that are kept for the next reader; longer ones are rare, and made again."""


class Piece(NamedTuple):
    """Part of the stream, for one reader."""

    data: bytes
    next_seq: int
    """Where the reader goes on."""


class EventRing:
    """Keeps about the last `num_events` events, and no more than `num_tokens` tokens of prompts."""

    def __init__(self, first_seq: int, num_events: int, num_tokens: int) -> None:
        self.next_seq = first_seq
        """Number of the next event."""
        self._forgotten = first_seq
        """Events before this one are not told any more, whether their slots are still full or
        not.
        """
        self._slots: list[Event | None] = [None] * num_events
        self._num_events = num_events
        self._prompts: deque[tuple[int, int]] = deque()
        self._room_for_tokens = num_tokens
        # For the readers alone, who share one thread.
        self._encoded: list[tuple[int, bytes]] = [(-1, b"")] * num_events

    def put(self, event: Event) -> None:
        """The next event. In the engine's thread."""
        seq = event.seq
        self._slots[seq % self._num_events] = event
        # Last: whoever sees the number finds the event. (A prompt too long for the ring is
        # forgotten right away.)
        self.next_seq = seq + 1
        if type(event) is RequestArrived:
            self._prompts.append((seq, len(event.prompt_token_ids)))
            self._room_for_tokens -= len(event.prompt_token_ids)
            while self._room_for_tokens < 0:
                oldest, num_tokens = self._prompts.popleft()
                self._room_for_tokens += num_tokens
                self._forgotten = oldest + 1
                slot = oldest % self._num_events
                if (kept := self._slots[slot]) is not None and kept.seq == oldest:
                    self._slots[slot] = None

    @property
    def first_seq(self) -> int:
        """Number of the oldest event that can be had."""
        return max(self._forgotten, self.next_seq - self._num_events)

    def has_time(self, seq: int) -> bool:
        """Whether a reader may begin with event `seq`: it will not be gone before its first
        look.
        """
        return seq >= max(self.first_seq, self.next_seq - self._num_events // 2)

    def take(self, seq: int) -> Piece:
        """From event `seq` on, as server-sent events, as much as goes into one piece; a `gap` first
        if it is gone.
        """
        messages = []
        if seq < self.first_seq:
            # The engine may move on meanwhile: the event that is really there says how far the gap
            # goes.
            event = self._slots[self.first_seq % self._num_events]
            if event is None or event.seq <= seq:
                return Piece(b"", seq)
            messages.append(_message(Gap(event.seq - 1, event.step, event.t, event.seq - seq)))
            seq = event.seq
        size, end = 0, self.next_seq
        while (
            seq < end and size < BYTES_PER_PIECE and (message := self._message_of(seq)) is not None
        ):
            messages.append(message)
            size += len(message)
            seq += 1
        return Piece(b"".join(messages), seq)

    def _message_of(self, seq: int) -> bytes | None:
        """None if the engine has overtaken us, which is a gap the next time."""
        slot = seq % self._num_events
        encoded_seq, message = self._encoded[slot]
        if encoded_seq == seq:
            return message
        event = self._slots[slot]
        if event is None or event.seq != seq:
            return None
        message = _message(event)
        if len(message) <= LONGEST_KEPT:
            self._encoded[slot] = (seq, message)
        return message


def _message(event: Event) -> bytes:
    return b"id: %d\ndata: %b\n" % (event.seq, encode_event(event))
