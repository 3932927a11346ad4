"""After a complete stop string, the search starts from the beginning."""

from minivllm.engine import stop_strings as engine

HINT = (
    "In 'aaa', the second a and the third a both complete 'aa'. What does the text end with right"
    " after a complete one?"
)


class _Automaton(engine._Automaton):
    def step(self, char: str) -> bool:
        if self.length == len(self.pattern):
            self.length = 0
        return super().step(char)
