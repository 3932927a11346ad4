"""The stop string that begins first decides."""

from minivllm.engine import stop_strings as engine

HINT = (
    "'bc' is complete before 'abcd' is. A stream cannot wait for the d to see whether the a began a"
    " stop string."
)


class StopStringChecker(engine.StopStringChecker):
    def feed(self, text: str, *, may_stop: bool = True) -> engine.StopCheck:
        pending = self._held_back + text
        found = [
            (pending.index(one.pattern), one.pattern)
            for one in self._automata
            if one.pattern in pending
        ]
        if may_stop and found:
            start, pattern = min(found)
            self._held_back = ""
            return engine.StopCheck(
                pending[: start + (len(pattern) if self._include_stop else 0)], pattern
            )
        return super().feed(text, may_stop=may_stop)
