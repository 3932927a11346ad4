"""Text that is still held back at the end is not shown."""

from minivllm.engine import stop_strings as engine

HINT = (
    "It was held back only because it could have become a stop string. Now it cannot, so it is part"
    " of the answer."
)


class StopStringChecker(engine.StopStringChecker):
    def finish(self, text: str = "", *, may_stop: bool = True) -> engine.StopCheck:
        return self.feed(text, may_stop=may_stop)
