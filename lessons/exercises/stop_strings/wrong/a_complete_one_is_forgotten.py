"""After a complete stop string the search begins anew."""

from minivllm.engine import stop_strings as engine

HINT = (
    "'aa' is completed by the second a and by the third one. What does the text end with right"
    " after a complete one?"
)


class _Automaton(engine._Automaton):
    def step(self, char: str) -> bool:
        if self.length == len(self.pattern):
            self.length = 0
        return super().step(char)
