"""While the text may not stop, there is nothing to look for."""

from minivllm.engine import stop_strings as engine

HINT = (
    "The last character before the text may stop can be the first one of a stop string. Where do"
    " you keep it?"
)


class StopStringChecker(engine.StopStringChecker):
    def feed(self, text: str, *, may_stop: bool = True) -> engine.StopCheck:
        if may_stop:
            return super().feed(text)
        held, self._held_back = self._held_back, ""
        return engine.StopCheck(held + text)
