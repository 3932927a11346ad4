"""`StopStringChecker`: finds stop strings in text that arrives in pieces.

The end of the text is held back while it could still become a stop string: exactly the longest
suffix of the text that is also the start of a stop string.

    stop "###"    pieces "Hi #"  "#5"    shown "Hi "  "##5"

The result does not depend on how the text was cut: the text stops at the first character that
completes a stop string. If this character completes two stop strings, the first in the list wins.

Each stop string has a Knuth-Morris-Pratt automaton: its state is the length of the longest prefix
of the stop string that the text ends with. A step costs amortized O(1).
"""

from typing import NamedTuple


class StopCheck(NamedTuple):
    text: str
    """Text that may be shown now."""
    stop: str | None = None
    """The completed stop string, if any. `text` then ends with the stop string or before it."""


def _borders_of(pattern: str) -> list[int]:
    """For each k: length of the longest proper prefix of `pattern[:k]` that also ends it."""
    borders = [0] * (len(pattern) + 1)
    border = 0
    for k in range(1, len(pattern)):
        while border and pattern[k] != pattern[border]:
            border = borders[border]
        border += pattern[k] == pattern[border]
        borders[k + 1] = border
    return borders


class _Automaton:
    """Tracks how much of one stop string the text ends with."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.length = 0
        self._borders = _borders_of(pattern)

    def step(self, char: str) -> bool:
        """Read one character; return whether the stop string is now complete."""
        # The last match was ignored; the next match may overlap with it.
        if self.length == len(self.pattern):
            self.length = self._borders[self.length]
        while self.length and char != self.pattern[self.length]:
            self.length = self._borders[self.length]
        self.length += char == self.pattern[self.length]
        return self.length == len(self.pattern)

    @property
    def num_undecided(self) -> int:
        """How many characters at the end of the text may be the start of this stop string."""
        return self._borders[self.length] if self.length == len(self.pattern) else self.length


class StopStringChecker:
    """Watches the text of one sequence for several stop strings."""

    def __init__(self, stop: list[str], include_stop_str_in_output: bool = False) -> None:
        """stop: non-empty strings"""
        self._automata = [_Automaton(pattern) for pattern in stop]
        self._include_stop = include_stop_str_in_output
        self._held_back = ""

    def feed(self, text: str, *, may_stop: bool = True) -> StopCheck:
        """Read the next piece. Do not call this method again after a stop.

        may_stop: if False, ignore stop strings that this piece completes.
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
        """Read the last piece and return all text that was held back.

        The last piece can complete a stop string, too: it may be an unfinished character or a run
        of raw bytes.
        """
        check = self.feed(text, may_stop=may_stop)
        remaining, self._held_back = self._held_back, ""
        return StopCheck(check.text + remaining, check.stop)
