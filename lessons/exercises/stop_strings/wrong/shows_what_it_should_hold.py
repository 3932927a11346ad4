"""Text that is not a complete stop string can be shown."""

from minivllm.engine import stop_strings as engine

HINT = (
    "The text ends with 'EN', and 'D' is the next character. What is on the screen when the stop"
    " string is complete?"
)


class StopStringChecker(engine.StopStringChecker):
    def feed(self, text: str, *, may_stop: bool = True) -> engine.StopCheck:
        check = super().feed(text, may_stop=may_stop)
        held, self._held_back = self._held_back, ""
        return check if check.stop is not None else engine.StopCheck(check.text + held)
