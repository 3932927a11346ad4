"""What was held back at the end was no text to be shown."""

from minivllm.engine import stop_strings as engine

HINT = (
    "It was held back only because it could have become a stop string. Now it cannot: whose text"
    " is it?"
)


class StopStringChecker(engine.StopStringChecker):
    def finish(self, text: str = "", *, may_stop: bool = True) -> engine.StopCheck:
        return self.feed(text, may_stop=may_stop)
