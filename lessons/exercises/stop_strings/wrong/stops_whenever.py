"""A stop string always stops the text, even with may_stop=False."""

from minivllm.engine import stop_strings as engine

HINT = (
    "The answer is still shorter than min_tokens, so may_stop is False. Where does your code use"
    " may_stop?"
)


class StopStringChecker(engine.StopStringChecker):
    def feed(self, text: str, *, may_stop: bool = True) -> engine.StopCheck:
        return super().feed(text)
