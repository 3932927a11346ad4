"""The stop strings are tried in the order of the list."""

from minivllm.engine import stop_strings as engine

HINT = (
    "The answer must not depend on how the text was cut into pieces. Which stop string is complete"
    " first, character by character?"
)


class StopStringChecker(engine.StopStringChecker):
    def feed(self, text: str, *, may_stop: bool = True) -> engine.StopCheck:
        pending = self._held_back + text
        for pattern in [automaton.pattern for automaton in self._automata] if may_stop else []:
            if pattern in pending:
                end = pending.index(pattern) + (len(pattern) if self._include_stop else 0)
                self._held_back = ""
                return engine.StopCheck(pending[:end], pattern)
        return super().feed(text, may_stop=may_stop)
