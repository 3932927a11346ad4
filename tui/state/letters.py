"""One letter for each sequence, so that a block map of two columns a block can say whose it is.

A sequence gets its letter when it first enters the batch and keeps it through preemptions to its
end: the initial of its name (ada: a, her second sample: A) if nobody has had that letter yet, else
the next in the alphabet. Do not hand a letter on too soon: cached blocks are drawn with the letter
of the sequence that left them, so a letter is reused only when all others have had their turn, and
from then on `of` no longer gives it for the old sequence.

A letter's colour is chosen with it: one that no other live sequence has, while there is one.
"""

from collections import Counter
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
    """letter -> the sequence that it stands for, in the order in which they were given"""
    hues: dict[str, int] = {}
    """letter -> the colour of the sequence that it stands for"""
    live: set[str] = set()
    num_free: int = len(ALPHABET)
    """Letters that stand for nobody who is there."""

    def assign(self, seq_id: str) -> None:
        """Give `seq_id` a letter unless it has one."""
        is_new = seq_id not in self.live
        self.live.add(seq_id)
        if seq_id in self.given:
            if is_new:  # a request with an old one's name
                self.num_free -= 1
                letter = self.given[seq_id]
                self.hues[letter] = self._free_hue(self.hues[letter], but=seq_id)
            return
        # more sequences than letters: to look for one at each of their blocks would be
        # slow
        if self.num_free == 0:
            return
        self.num_free -= 1
        letter = self._fresh(seq_id) or self._oldest()
        self.given.pop(self.holders.pop(letter, None), None)
        self.hues[letter] = self._free_hue(ALPHABET.index(letter) % NUM_HUES)
        self.given[seq_id], self.holders[letter] = letter, seq_id

    def _fresh(self, seq_id: str) -> str | None:
        """A letter that stood for nobody so far: the initial of a name; `r1` and `user-1` are no
        names, and take the next one.
        """
        name, _, index = seq_id.rpartition(".")
        wanted = ALPHABET
        if name.isalpha():
            # Further samples of a name begin at the other end, so that they leave other names their
            # initials.
            wanted = (
                name[0].lower() + ALPHABET if index == "0" else name[0].upper() + ALPHABET[::-1]
            )
        return next(
            (letter for letter in wanted if letter in ALPHABET and letter not in self.holders), None
        )

    def _oldest(self) -> str:
        """The letter that was given first of those that stand for nobody who is there."""
        return next(letter for letter, holder in self.holders.items() if holder not in self.live)

    def _free_hue(self, wanted: int, but: str | None = None) -> int:
        """`wanted`, or the next colour that fewer live sequences `but` one have."""
        used = Counter(
            self.hues[self.given[one]] for one in self.live if one in self.given and one != but
        )
        return min(((wanted + by) % NUM_HUES for by in range(NUM_HUES)), key=lambda hue: used[hue])

    def release(self, seq_id: str) -> None:
        """The sequence has ended: its letter may be handed on when its turn comes."""
        if seq_id in self.live:
            self.live.remove(seq_id)
            self.num_free += seq_id in self.given

    def of(self, seq_id: str | None) -> str | None:
        """The letter of a sequence in the batch, or of an ended one whose letter is still its
        own.
        """
        if seq_id is None:
            return None
        letter = self.given.get(seq_id)
        return NO_LETTER if letter is None and seq_id in self.live else letter

    def hue(self, letter: str | None) -> str:
        """The style name of a letter's colour."""
        number = self.hues.get(letter)
        return "muted" if number is None else f"hue{number}"
