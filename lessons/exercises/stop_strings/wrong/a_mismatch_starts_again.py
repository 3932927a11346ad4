"""If a character does not match, no part of the stop string is left."""

from minivllm.engine import stop_strings as engine

HINT = (
    "After 'aaa' the text ends with 'aa', the beginning of 'aab'. Which shorter beginning does the"
    " text still end with?"
)


class _Automaton(engine._Automaton):
    def step(self, char: str) -> bool:
        if self.length == len(self.pattern) or char != self.pattern[self.length]:
            self.length = 0
        self.length += char == self.pattern[self.length]
        return self.length == len(self.pattern)
