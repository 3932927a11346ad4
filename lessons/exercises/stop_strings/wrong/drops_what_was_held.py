"""What was held back at the end was no text to be shown."""

from minivllm import stop_strings as engine

HINT = "It was held back only because it could have become a stop string. Now it cannot: whose text is it?"


class StopStringChecker(engine.StopStringChecker):
    def flush(self, text: str = "") -> str:
        self._held_back = ""
        return text
