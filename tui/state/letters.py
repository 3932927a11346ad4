"""One letter per sequence, to show each block's owner in a map with two columns per block.

A sequence gets its letter when it first enters the batch and keeps the letter until it ends. The
letter is the initial of the sequence's name (ada: a, her second sample: A) if that letter was never
used, else the next unused letter.

Cached blocks keep the letter of their last owner, so letters and colours are reused as late as
possible. No two live sequences have the same colour while colours are free. When few are, siblings
(samples, beams) share colours, so that a colour still means one request.
"""

from collections import Counter
from string import ascii_lowercase, ascii_uppercase

import msgspec

from minivllm.text import short_name

ALPHABET = ascii_lowercase + ascii_uppercase
NO_LETTER = "*"
"""Drawn for further sequences while 52 others have a letter."""
NUM_HUES = 12
_HUES_FOR_OTHERS = 4
"""If fewer colours are free, a request with several sequences leaves them to other requests."""
_MOST_OF_ONE = NUM_HUES // 4
"""A request may always have this many colours."""


class Letters(msgspec.Struct):
    given: dict[str, str] = {}
    """seq_id -> letter"""
    holders: dict[str, str] = {}
    """letter -> its sequence, in the order of giving"""
    hues: dict[str, int] = {}
    """letter -> the colour of its sequence; the newest last"""
    live: set[str] = set()
    num_free: int = len(ALPHABET)
    """Number of letters that no live sequence has."""

    def assign(self, seq_id: str) -> None:
        is_new = seq_id not in self.live
        self.live.add(seq_id)
        if seq_id in self.given:
            if is_new:  # a new request with the name of an old one
                self.num_free -= 1
                letter = self.given[seq_id]
                self._colour(letter, seq_id, wanted=self.hues[letter])
            return
        # No letter is free. Return now: a search for each event of such a sequence would be slow.
        if self.num_free == 0:
            return
        self.num_free -= 1
        ended = (known for known, holder in self.holders.items() if holder not in self.live)
        letter = self._fresh(seq_id) or next(ended)  # was given longest ago
        self.given.pop(self.holders.pop(letter, None), None)
        self._colour(letter, seq_id, wanted=ALPHABET.index(letter) % NUM_HUES)
        self.given[seq_id], self.holders[letter] = letter, seq_id

    def _fresh(self, seq_id: str) -> str | None:
        """An unused letter: the initial of `ada` or `user-1`, or the next letter for `r1`."""
        request_id, _, index = seq_id.rpartition(".")
        name = short_name(f"{request_id}.0")
        wanted = ALPHABET
        if name.partition("-")[0].isalpha():
            # For further samples, search from the end, to leave initials for other names.
            first = index == "0"
            wanted = name[0].lower() + ALPHABET if first else name[0].upper() + ALPHABET[::-1]
        unused = (letter for letter in wanted if letter in ALPHABET and letter not in self.holders)
        return next(unused, None)

    def _colour(self, letter: str, seq_id: str, wanted: int) -> None:
        self.hues.pop(letter, None)
        self.hues[letter] = self._choose_hue(seq_id, wanted)

    def _choose_hue(self, seq_id: str, wanted: int) -> int:
        """A colour that no live sequence has, preferably `wanted` or else the one unused longest.

        If few are free: one that a sibling has; if none is: one that the fewest live ones have.
        """
        request, live = seq_id.rpartition(".")[0], Counter[int]()
        siblings = Counter[int]()
        for other in self.live:
            if other in self.given and other != seq_id:
                hue = self.hues[self.given[other]]
                live[hue] += 1
                siblings[hue] += other.rpartition(".")[0] == request
        siblings = +siblings
        # Old letters keep their colours on the screen, so a colour is reused late.
        newest = {hue: number for number, hue in enumerate(self.hues.values())}
        order = [(wanted + by) % NUM_HUES for by in range(NUM_HUES)]
        order.sort(key=lambda hue: newest.get(hue, -1))
        free = [hue for hue in order if not live[hue]]
        if free and (len(free) > _HUES_FOR_OTHERS or len(siblings) < _MOST_OF_ONE):
            return free[0]
        return min(siblings or order, key=lambda hue: (live[hue], newest.get(hue, -1)))

    def release(self, seq_id: str) -> None:
        """The sequence has ended: its letter can be reused."""
        if seq_id in self.live:
            self.live.remove(seq_id)
            self.num_free += seq_id in self.given

    def of(self, seq_id: str | None) -> str | None:
        """The letter of a sequence; None if it has none, or if another sequence has it now."""
        if seq_id is None:
            return None
        letter = self.given.get(seq_id)
        return NO_LETTER if letter is None and seq_id in self.live else letter

    def hue(self, letter: str | None) -> str:
        number = self.hues.get(letter)
        return "muted" if number is None else f"hue{number}"
