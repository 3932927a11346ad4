"""Three things to try: shown until an engine without work gets its first request."""

import textwrap

from textual.geometry import Size

from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.keybar import bound_commands
from minivllm.tui.widgets.frame.panel import Panel

_SUGGESTIONS = (
    ("engine.add", "Ask the model a question, and watch its blocks fill."),
    ("engine.burst", "Send four requests with the same beginning: they share blocks."),
    ("engine.phase", "Run the engine phase by phase: schedule, execute, sample."),
)
"""(command id, what it shows)"""
_KEY_WIDTH = 4


class Suggestions(Panel, can_focus=False):
    HELP_TITLE = "Three things to try"
    HELP_TEXT = "Press one of these keys, or click on a row. The list goes at the first request."

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        bound, lines, before = bound_commands(self.screen), [], None
        for command_id, words in self._rows(width):
            key = "" if command_id == before else self.app.get_key_display(bound[command_id])
            action = f"app.command('{command_id}')"
            row = Row(width).put(key, "accent*", _KEY_WIDTH, action)
            lines.append(row.put(words, "text", row.room, action).line())
            before = command_id
        return lines[:height]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows(width))

    def _rows(self, width: int) -> list[tuple[str, str]]:
        """(command id, a part of its sentence) for each row."""
        return [
            (command_id, row)
            for command_id, sentence in _SUGGESTIONS
            for row in textwrap.wrap(sentence, max(width - _KEY_WIDTH, 10))
        ]
