"""A stop string is never shown."""

from minivllm.engine import stop_strings as engine

HINT = (
    "include_stop_str_in_output asks for it: then the text ends with the stop string's last"
    " character."
)


class StopStringChecker(engine.StopStringChecker):
    def __init__(self, stop: list[str], include_stop_str_in_output: bool = False) -> None:
        super().__init__(stop, False)
