"""`StopStringChecker`: finds stop strings in text that arrives in pieces, and lets no part of one
slip out.

Knows text alone. A stop string may begin in one piece and end three pieces later, so the end of the
text is held back while it could still become one: exactly the longest suffix that begins some stop
string, nothing more. (Holding back a fixed number of characters would delay every stream by them.)

Easy to get wrong: the answer must not depend on how the text was cut. So the text is taken one
character at a time, and the first character that completes a stop string decides; of two completed
by the same character, the first in the list wins.

Each stop string is matched by the Knuth-Morris-Pratt automaton: its state is the length of the
longest prefix of the stop string that the text so far ends with. That is the question asked here,
and a step costs O(1).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopCheck:
    """What came out of one piece of text."""

    text: str
    """May be shown now."""
    stop: str | None = None
    """The stop string that was completed, if any; the text ends with it or before it."""


def _borders_of(pattern: str) -> list[int]:
    """For each k up to the whole length: the longest proper prefix of `pattern[:k]` that is also
    its suffix.
    """
    borders = [0] * (len(pattern) + 1)
    border = 0
    for k in range(1, len(pattern)):
        while border and pattern[k] != pattern[border]:
            border = borders[border]
        border += pattern[k] == pattern[border]
        borders[k + 1] = border
    return borders


class _Automaton:
    """How much of one stop string the text ends with."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.length = 0
        self._borders = _borders_of(pattern)

    def step(self, char: str) -> bool:
        """Take in one character; whether the whole stop string is there now."""
        # complete, but passed over: it may overlap with the next one
        if self.length == len(self.pattern):
            self.length = self._borders[self.length]
        while self.length and char != self.pattern[self.length]:
            self.length = self._borders[self.length]
        self.length += char == self.pattern[self.length]
        return self.length == len(self.pattern)

    @property
    def num_undecided(self) -> int:
        """Characters at the end of the text that may be the beginning of this stop string."""
        return self._borders[self.length] if self.length == len(self.pattern) else self.length


class StopStringChecker:
    """Watches one sequence's text for any of several stop strings."""

    def __init__(self, stop: list[str], include_stop_str_in_output: bool = False) -> None:
        """`stop`: non-empty strings."""
        self._automata = [_Automaton(pattern) for pattern in stop]
        self._include_stop = include_stop_str_in_output
        self._held_back = ""

    def feed(self, text: str, *, may_stop: bool = True) -> StopCheck:
        """Take in the next piece. With `may_stop=False` stop strings that it completes are passed
        over.

        After a stop the sequence is over; nothing more may be fed.
        """
        pending = self._held_back + text
        position = len(self._held_back)
        for char in text:
            position += 1
            completed = [automaton for automaton in self._automata if automaton.step(char)]
            if completed and may_stop:
                stop = completed[0].pattern
                self._held_back = ""
                return StopCheck(
                    pending[: position if self._include_stop else position - len(stop)], stop
                )
        num_held = max((automaton.num_undecided for automaton in self._automata), default=0)
        self._held_back = pending[len(pending) - num_held :]
        return StopCheck(pending[: len(pending) - num_held])

    def finish(self, text: str = "", *, may_stop: bool = True) -> StopCheck:
        """The sequence has ended, with `text` as its last piece: all that may be shown.

        The last piece can complete a stop string, too: a character that was never finished, or a
        run of raw bytes.
        """
        check = self.feed(text, may_stop=may_stop)
        remaining, self._held_back = self._held_back, ""
        return StopCheck(check.text + remaining, check.stop)
