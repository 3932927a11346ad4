"""Finished: the newest finished sequences with their texts, newest first."""

from minivllm.text import LONGEST_TEXT, clean, plural, short_name
from minivllm.tui.draw.lines import Line, Row, line
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

REASONS = {"stop": ("done", "good"), "length": ("at limit", "muted"), "abort": ("aborted", "bad")}


class Finished(Panel):
    HELP_TITLE = "Finished"
    HELP_TEXT = (
        "The last sequences that ended, newest first: done (an end token or a stop string), at"
        " limit (max_tokens) or aborted. A beam search has one row, with its best text. Each row"
        " has the number of tokens, prompt and output, and the beginning of the output."
    )

    def title(self, model: DashboardModel, width: int) -> str:
        ended = model.fold.counters.finished_requests + model.fold.counters.aborted_requests
        return f"Finished  {plural(ended, 'request')}, newest first"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        history = model.fold.history
        if not history:
            return [line(width, ("none yet", "faint"))]
        newest = [history[-1 - back] for back in range(min(height, len(history)))]
        name_width = min(max(len(short_name(done.seq_id)) for done in newest), 14)
        lines = []
        for done in newest:
            letter = model.letter(done.seq_id)
            word, style = REASONS.get(done.reason, (clean(done.reason), "muted"))
            target = to_sequence(done.seq_id)
            row = Row(width).put(f"{letter or ' '} ", f"{model.hue(letter)}*", target=target)
            row.put(short_name(done.seq_id), "text", name_width, target).put(f" {word:<8} ", style)
            row.put(f"{done.num_tokens:>4} tok  ", "muted")
            lines.append(row.put(clean(done.text[:LONGEST_TEXT]), "text").line())
        return lines
