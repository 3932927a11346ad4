"""One letter for each sequence, so that a block map of two columns a block can say whose it is.

A sequence gets its letter when it first enters the batch and keeps it through preemptions to its
end. The easy thing to get wrong is to hand a letter on too soon: cached blocks are drawn with the
letter of the sequence that left them, so a letter is reused only when all others have had their
turn, and from then on `of` no longer gives it for the old sequence.
"""

from string import ascii_lowercase, ascii_uppercase

ALPHABET = ascii_lowercase + ascii_uppercase
NO_LETTER = "*"
"""Drawn for sequences beyond the 52 that can have a letter at once."""
NUM_HUES = 8


class Letters:
    """Who has which letter."""

    def __init__(self) -> None:
        self._letter: dict[str, str] = {}
        self._holder: dict[str, str] = {}
        self._live: set[str] = set()
        self._next = 0

    def assign(self, seq_id: str) -> None:
        """Give `seq_id` a letter unless it has one."""
        self._live.add(seq_id)
        if seq_id in self._letter:
            return
        for turn in range(len(ALPHABET)):
            letter = ALPHABET[(self._next + turn) % len(ALPHABET)]
            holder = self._holder.get(letter)
            if holder not in self._live:
                self._letter.pop(holder, None)
                self._letter[seq_id], self._holder[letter] = letter, seq_id
                self._next = (self._next + turn + 1) % len(ALPHABET)
                return

    def release(self, seq_id: str) -> None:
        """The sequence has ended: its letter may be handed on when its turn comes."""
        self._live.discard(seq_id)

    def copy(self) -> "Letters":
        other = Letters()
        other._letter, other._holder = dict(self._letter), dict(self._holder)
        other._live, other._next = set(self._live), self._next
        return other

    def of(self, seq_id: str | None) -> str | None:
        """The letter of a sequence in the batch, or of an ended one whose letter is still its own."""
        if seq_id is None:
            return None
        letter = self._letter.get(seq_id)
        return NO_LETTER if letter is None and seq_id in self._live else letter


def hue(letter: str | None) -> str:
    """The style name of a letter's colour: neighbours in the alphabet get different ones."""
    index = ALPHABET.find(letter) if letter else -1
    return "muted" if index < 0 else f"hue{index % NUM_HUES}"
