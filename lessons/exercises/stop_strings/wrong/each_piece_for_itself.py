"""A stop string stands in one piece of text."""

from minivllm.engine import stop_strings as engine

HINT = (
    "'EN' came with one token and 'D' comes with the next. What has your code seen of the first by"
    " then?"
)


class StopStringChecker(engine.StopStringChecker):
    def feed(self, text: str, *, may_stop: bool = True) -> engine.StopCheck:
        for automaton in self._automata:
            automaton.length = 0
        return super().feed(text, may_stop=may_stop)
