"""A stop string is never shown."""

from minivllm.engine import stop_strings as engine

HINT = "With include_stop_str_in_output, the text ends with the last character of the stop string."


class StopStringChecker(engine.StopStringChecker):
    def __init__(self, stop: list[str], include_stop_str_in_output: bool = False) -> None:
        super().__init__(stop, False)
