"""One letter for each sequence, so that a block map of two columns a block can say whose it is.

A sequence gets its letter when it first enters the batch and keeps it through preemptions to its
end. The easy thing to get wrong is to hand a letter on too soon: cached blocks are drawn with the
letter of the sequence that left them, so a letter is reused only when all others have had their
turn, and from then on `of` no longer gives it for the old sequence.
"""

from string import ascii_lowercase, ascii_uppercase

import msgspec

ALPHABET = ascii_lowercase + ascii_uppercase
NO_LETTER = "*"
"""Drawn for sequences beyond the 52 that can have a letter at once."""
NUM_HUES = 8


class Letters(msgspec.Struct):
    """Who has which letter. Plain data, so that a keyframe can hold it."""

    given: dict[str, str] = {}
    """seq_id -> letter"""
    holders: dict[str, str] = {}
    """letter -> the sequence that it stands for"""
    live: set[str] = set()
    next_turn: int = 0
    num_free: int = len(ALPHABET)
    """Letters that stand for nobody who is there."""

    def assign(self, seq_id: str) -> None:
        """Give `seq_id` a letter unless it has one."""
        is_new = seq_id not in self.live
        self.live.add(seq_id)
        if seq_id in self.given:
            self.num_free -= is_new
            return
        if self.num_free == 0:  # more sequences than letters: to look for one at each of their blocks would be slow
            return
        self.num_free -= 1
        for turn in range(len(ALPHABET)):
            letter = ALPHABET[(self.next_turn + turn) % len(ALPHABET)]
            holder = self.holders.get(letter)
            if holder not in self.live:
                self.given.pop(holder, None)
                self.given[seq_id], self.holders[letter] = letter, seq_id
                self.next_turn = (self.next_turn + turn + 1) % len(ALPHABET)
                return

    def release(self, seq_id: str) -> None:
        """The sequence has ended: its letter may be handed on when its turn comes."""
        if seq_id in self.live:
            self.live.remove(seq_id)
            self.num_free += seq_id in self.given

    def of(self, seq_id: str | None) -> str | None:
        """The letter of a sequence in the batch, or of an ended one whose letter is still its own."""
        if seq_id is None:
            return None
        letter = self.given.get(seq_id)
        return NO_LETTER if letter is None and seq_id in self.live else letter


def hue(letter: str | None) -> str:
    """The style name of a letter's colour: neighbours in the alphabet get different ones."""
    index = ALPHABET.find(letter) if letter else -1
    return "muted" if index < 0 else f"hue{index % NUM_HUES}"
