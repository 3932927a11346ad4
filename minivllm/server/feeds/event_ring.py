"""`EventRing`: the newest events, written by the engine's thread and read by others without a lock.

The engine stores an event in its slot and then increases the number of the next event. Each event
contains its own number, so a reader notices if the slot has been overwritten. The oldest prompts
are dropped when all prompts together have too many tokens.
"""

from collections import deque

from minivllm.events.recording.lines import encode_event
from minivllm.events.types import Event, Gap, RequestArrived

BYTES_PER_PIECE = 1 << 18


class EventRing:
    """Keeps about `num_events` events, with at most `num_tokens` prompt tokens in total."""

    def __init__(self, first_seq: int, num_events: int, num_tokens: int) -> None:
        self.next_seq = first_seq
        """Number of the next event."""
        self._forgotten = first_seq
        """Events before this number are no longer available, even if their slots are still full."""
        self._slots: list[Event | None] = [None] * num_events
        self._num_events = num_events
        self._prompts: deque[tuple[int, int]] = deque()
        self._room_for_tokens = num_tokens

    def put(self, event: Event) -> None:
        """Store the next event. Called in the engine's thread."""
        seq = event.seq
        self._slots[seq % self._num_events] = event
        # Increase the number last, so that a reader that sees the number finds the event. (A prompt
        # that is too long for the ring is dropped at once.)
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
        """Number of the oldest event that is still available."""
        return max(self._forgotten, self.next_seq - self._num_events)

    def has_time(self, seq: int) -> bool:
        """Whether a reader can start at event `seq` before the ring overwrites it."""
        return seq >= max(self.first_seq, self.next_seq - self._num_events // 2)

    def take(self, seq: int) -> tuple[bytes, int]:
        """Encode a piece of the stream from event `seq` on; if it is lost, start with a `Gap`.

        Also return the number of the event that the reader takes next.
        """
        messages = []
        if seq < self.first_seq:
            # The engine may overwrite slots meanwhile, so end the gap at the event that is in the
            # slot.
            event = self._slots[self.first_seq % self._num_events]
            if event is None or event.seq <= seq:
                return b"", seq
            messages.append(_message(Gap(event.seq - 1, event.step, event.t, event.seq - seq)))
            seq = event.seq
        size, end = 0, self.next_seq
        while seq < end and size < BYTES_PER_PIECE:
            event = self._slots[seq % self._num_events]
            if event is None or event.seq != seq:
                break  # it was overwritten: the next `take` reports a gap
            messages.append(_message(event))
            size += len(messages[-1])
            seq += 1
        return b"".join(messages), seq


def _message(event: Event) -> bytes:
    return b"id: %d\ndata: %b\n" % (event.seq, encode_event(event))
