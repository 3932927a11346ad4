"""At the end show everything: no text follows, so there is nothing to look for."""

from minivllm.engine import stop_strings as engine

HINT = "The last piece can complete a stop string. Where do you check it?"


class StopStringChecker(engine.StopStringChecker):
    def finish(self, text: str = "", *, may_stop: bool = True) -> engine.StopCheck:
        remaining, self._held_back = self._held_back + text, ""
        return engine.StopCheck(remaining)
