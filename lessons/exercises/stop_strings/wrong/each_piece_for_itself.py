"""A stop string is always inside one piece of text."""

from minivllm.engine import stop_strings as engine

HINT = (
    "'EN' came with one token and 'D' comes with the next. Does your code still know about 'EN'"
    " then?"
)


class StopStringChecker(engine.StopStringChecker):
    def feed(self, text: str, *, may_stop: bool = True) -> engine.StopCheck:
        for automaton in self._automata:
            automaton.length = 0
        return super().feed(text, may_stop=may_stop)
