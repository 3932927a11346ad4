"""To be safe, always hold back one character less than the longest stop string has."""

from minivllm.engine import stop_strings as engine

HINT = (
    "Then every word is late, even if it could never become a stop string. How much of the text's"
    " end begins one?"
)


class StopStringChecker(engine.StopStringChecker):
    def feed(self, text: str, *, may_stop: bool = True) -> engine.StopCheck:
        before = self._held_back
        check = super().feed(text, may_stop=may_stop)
        if check.stop is not None:
            return check
        pending = before + text
        num_held = min(
            max(len(automaton.pattern) for automaton in self._automata) - 1, len(pending)
        )
        self._held_back = pending[len(pending) - num_held :]
        return engine.StopCheck(pending[: len(pending) - num_held])
