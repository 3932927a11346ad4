"""The end shows all there is: nothing comes after it, so there is nothing to look for."""

from minivllm.engine import stop_strings as engine

HINT = "The last piece can be the one that completes a stop string. Who has compared it?"


class StopStringChecker(engine.StopStringChecker):
    def finish(self, text: str = "", *, may_stop: bool = True) -> engine.StopCheck:
        remaining, self._held_back = self._held_back + text, ""
        return engine.StopCheck(remaining)
