"""The border is how often the first character comes again."""

from minivllm.engine import stop_strings as engine

HINT = "borders[k] asks for the longest beginning that is also an end. Does it fit character by character?"


class _Automaton(engine._Automaton):
    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._borders = [0, 0, *(pattern[1:k].count(pattern[0]) for k in range(2, len(pattern) + 1))]
