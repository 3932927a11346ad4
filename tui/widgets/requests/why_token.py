"""Panel "Why this token": the candidates for a watched sequence's newest token, stage by stage.

    token      logit  model  temp.  final   draw  arrives
  > cat        12.31  41.0%  52.1%  55.0%   0.31     0.56
    dog        11.90  27.2%  31.0%  32.7%   0.80     2.45
    bird        9.10   1.7%   0.9%  top-p

Shows the selected sequence, or else the sequence explained last.
"""

from minivllm.events import types as ev
from minivllm.text import plural, short_name
from minivllm.tui.answers.why_tokens import cut_words, why_token
from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.draw.selection import sequence
from minivllm.tui.draw.wrap import wrap
from minivllm.tui.state.explanations import piece_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_TOKEN_WIDTH = 18
_WIDTH = 9


class WhyToken(Panel):
    HELP_TITLE = "Why this token"
    HELP_TEXT = (
        "The candidates for the newest token of a watched sequence; W starts and stops watching the"
        " selected one. Columns: the logit after bias and penalties, the model's own probability,"
        " the probability after penalties and temperature, and the final one after the cuts, or"
        " the parameter that cut the token. The draw is a race: each token has a random number, and"
        " arrives at this number divided by its final probability. The earliest token wins."
    )
    KEYS = ("engine.tokens",)
    RULE = "minivllm.runtime.sampling.sampler:Sampler._draw"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        own = None if self.context is None else self.context.selection.seq_id
        event = model.explanations.last if own is None else model.explanations.of(own)
        if event is None:
            hint = (
                "no token is explained: W watches the selected sequence"
                if own is None
                else f"{short_name(own)} is not watched: W explains its next tokens"
            )
            return [Row(width).put(hint, "faint").line()]
        letter = model.letter(event.seq_id)
        head = (
            Row(width)
            .put(f"{letter or '-'} ", f"{model.hue(letter)}*")
            .put(short_name(event.seq_id), "text*", target=sequence(event.seq_id))
            .put(f" token {event.position:,} in step {event.step:,}: ", "muted")
            .put(_settings(event), "text")
        )
        said = wrap(why_token(model, event) + ".", width)[: max(height // 3, 1)]
        top = [head.line(), *(Row(width).put(text, "text").line() for text in said)]
        table = _beams(model, event, width) if event.beams else _candidates(model, event, width)
        return (top + table)[:height]


def _settings(event: ev.TokenExplained) -> str:
    if event.beams:
        return "beam search"
    cuts = [f", {cut_words(cut)} leaves {cut.num_left:,}" for cut in event.cuts]
    if event.temperature == 0.0:
        return "greedy" + "".join(cuts)
    return (
        f"temperature {event.temperature:g}{''.join(cuts)} of {plural(event.vocab_size, 'token')}"
    )


def _candidates(model: DashboardModel, event: ev.TokenExplained, width: int) -> list[Line]:
    names = ["logit", "model", "temp.", "final", *["draw", "arrives"] * (event.temperature > 0.0)]
    lines = [_row("", "token", names, "muted", width)]
    # The chosen token comes first if it is not among the most likely ones.
    for one in sorted(event.candidates, key=lambda one: one.token_id != event.token_id):
        logit = "masked" if one.processed_logit is None else f"{one.processed_logit:.2f}"
        final = f"{one.final_probability:.1%}"
        if one.cut_by is not None:
            final = {"min_tokens": "masked", "rounding": "rounded"}.get(
                one.cut_by, one.cut_by.replace("_", "-")
            )
        values = [logit, f"{one.probability:.1%}", f"{one.tempered_probability:.1%}", final]
        if one.arrival is not None:
            values += [f"{one.draw:.2f}", f"{one.arrival:.2f}"]
        won = one.token_id == event.token_id
        style = "good*" if won else "muted" if one.cut_by is not None else "text"
        piece = piece_of(model.fold, one.token_id)
        lines.append(_row(">" if won else "", piece, values, style, width))
    return lines


def _beams(model: DashboardModel, event: ev.TokenExplained, width: int) -> list[Line]:
    lines = [_row("", "token", ["logprob", "score", "", "beam"], "muted", width)]
    for one in event.beams:
        fate = {"continues": "goes on"}.get(one.fate, one.fate)
        values = [f"{one.logprob:.2f}", f"{one.score:.2f}", fate, short_name(one.seq_id)]
        style = {"continues": "good*", "ends": "accent"}.get(one.fate, "muted")
        mark = ">" if one.fate == "continues" else ""
        lines.append(_row(mark, piece_of(model.fold, one.token_id), values, style, width))
    return lines


def _row(mark: str, token: str, values: list[str], style: str, width: int) -> Line:
    row = Row(width).put(mark, style, 2).put(token, style, _TOKEN_WIDTH)
    for value in values:
        row.put(value.rjust(_WIDTH), style, max(_WIDTH, len(value) + 1))
    return row.line()
