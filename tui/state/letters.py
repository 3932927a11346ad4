"""One letter per sequence, so that a block map with two columns per block can show its owner.

A sequence gets its letter when it first enters the batch and keeps it to its end. It is the initial
of its name (ada: a, her second sample: A) if that was never used, else the next unused letter.

Cached blocks keep the letter of their last owner. So a letter is reused as late as possible; then
`of` no longer returns it for the old sequence. The colour is one that no other live sequence has,
if possible.
"""

from collections import Counter
from string import ascii_lowercase, ascii_uppercase

import msgspec

ALPHABET = ascii_lowercase + ascii_uppercase
NO_LETTER = "*"
"""For sequences beyond the 52 that can have a letter at once."""
NUM_HUES = 8


class Letters(msgspec.Struct):
    """Plain data, so that a keyframe can hold it."""

    given: dict[str, str] = {}
    """seq_id -> letter"""
    holders: dict[str, str] = {}
    """letter -> its sequence, in the order of assignment"""
    hues: dict[str, int] = {}
    """letter -> the colour of its sequence"""
    live: set[str] = set()
    num_free: int = len(ALPHABET)
    """Letters that no live sequence has."""

    def assign(self, seq_id: str) -> None:
        """Give `seq_id` a letter unless it has one."""
        is_new = seq_id not in self.live
        self.live.add(seq_id)
        if seq_id in self.given:
            if is_new:  # a new request with the name of an old one
                self.num_free -= 1
                letter = self.given[seq_id]
                self.hues[letter] = self._free_hue(self.hues[letter], but=seq_id)
            return
        # More sequences than letters: a search at each of their blocks would be slow.
        if self.num_free == 0:
            return
        self.num_free -= 1
        letter = self._fresh(seq_id) or self._oldest()
        self.given.pop(self.holders.pop(letter, None), None)
        self.hues[letter] = self._free_hue(ALPHABET.index(letter) % NUM_HUES)
        self.given[seq_id], self.holders[letter] = letter, seq_id

    def _fresh(self, seq_id: str) -> str | None:
        """A letter never used before: the initial of a name, or the next one for ids like `r1`."""
        name, _, index = seq_id.rpartition(".")
        wanted = ALPHABET
        if name.isalpha():
            # Further samples start at the other end, to leave other names their initials.
            wanted = (
                name[0].lower() + ALPHABET if index == "0" else name[0].upper() + ALPHABET[::-1]
            )
        return next(
            (letter for letter in wanted if letter in ALPHABET and letter not in self.holders), None
        )

    def _oldest(self) -> str:
        """The letter assigned longest ago, among those of ended sequences."""
        return next(letter for letter, holder in self.holders.items() if holder not in self.live)

    def _free_hue(self, wanted: int, but: str | None = None) -> int:
        """The least used colour of live sequences except `but`; the first from `wanted` on."""
        used = Counter(
            self.hues[self.given[one]] for one in self.live if one in self.given and one != but
        )
        return min(((wanted + by) % NUM_HUES for by in range(NUM_HUES)), key=lambda hue: used[hue])

    def release(self, seq_id: str) -> None:
        """Mark the sequence as ended, so that its letter can be reused."""
        if seq_id in self.live:
            self.live.remove(seq_id)
            self.num_free += seq_id in self.given

    def of(self, seq_id: str | None) -> str | None:
        """The letter of a live sequence, or of an ended one if the letter was not reused."""
        if seq_id is None:
            return None
        letter = self.given.get(seq_id)
        return NO_LETTER if letter is None and seq_id in self.live else letter

    def hue(self, letter: str | None) -> str:
        """The style name of a letter's colour."""
        number = self.hues.get(letter)
        return "muted" if number is None else f"hue{number}"
