"""The candidates for a token as rows of bars, stage by stage. A full bar is 100 %.

    token     model           temp 0.8        final           random  race: the shortest way wins
  > ·cat      ███▌     41.0%  ████     52.1%  █████    62.5%    0.50  ───●           0.80
    ·dog      ██       25.0%  ██▌      30.0%  ███      37.5%    0.90  ─────────●     2.40
    ·bird     ▌         9.0%  █        10.0%  top-p 0.9

A narrow panel has one bar and the arrival time. A token that was cut is struck out.
"""

from typing import NamedTuple

from minivllm.events import types as ev
from minivllm.text import visible
from minivllm.tui.answers.why_tokens import cut_words
from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.state.model import DashboardModel

_WIDE, _MEDIUM = 110, 40
"""Columns for a bar of each stage; behind the word, for one bar and the model's probability."""
_PERCENT, _CAUSE = 7, 11
_LANE, _LONGEST_LANE = 22, 60
"""Columns for the race."""
_LONGEST_BAR = 28
_RACE_LIMIT = 6.0
"""A token that arrives this many times later than the winner is not on the track."""
_MASKED = {"structured_outputs": "refused", "min_tokens": "masked", "rounding": "rounded"}


class _Look(NamedTuple):
    style: str
    word: str
    """Style of the word; struck out if the token was cut."""
    mark: str


_Begun = tuple[ev.TokenCandidate, Row, _Look]
"""A candidate, and its row as far as its mark and word."""


def candidate_lines(
    model: DashboardModel, event: ev.TokenExplained, width: int, height: int, *, ascii: bool = False
) -> list[Line]:
    """At most `height` rows with a heading; the winner and the second of the race are shown.

    A beam search has none: the Requests screen draws its beams as a tree.
    """
    if height <= 0 or event.beams:
        return []
    word_width = 18 if width >= _WIDE else min(max(width // 4, 8), 18)
    heading = Row(width).put("", "muted", 2).put("token", "muted", word_width)
    begun = []
    for token in _shown(event, max(height - 1, 1)):
        look = _look(event, token)
        word = visible(model.fold.token_pieces.get(token.token_id, ""), ascii)
        row = Row(width).put(look.mark, look.style, 2)
        row.put(word or f"token {token.token_id}", look.word, word_width - 1).put(" ")
        begun.append((token, row, look))
    (_put_wide if width >= _WIDE else _put_narrow)(event, heading, begun)
    return [heading.line(), *(row.line() for _, row, _ in begun)][-height:]


def _shown(event: ev.TokenExplained, count: int) -> list[ev.TokenCandidate]:
    """The most likely candidates, and in the last rows those that must not be missing."""
    shown = list(event.candidates[:count])
    needed = [token for token in (event.chosen, event.second) if token is not None][:count]
    missing = [token for token in needed if token not in shown]
    spare = [token for token in shown if token not in needed]
    for token in spare[len(spare) - len(missing) :] if missing else ():
        shown.remove(token)
    return shown + missing


# ---- rows ----


def _put_narrow(event: ev.TokenExplained, heading: Row, begun: list[_Begun]) -> None:
    draws = event.temperature > 0.0
    races = draws and event.token_id is not None
    model_width = 8 if heading.room >= _MEDIUM else 0
    bar_width = max(heading.room - model_width - 1 - _CAUSE - (8 if races else 0), 3)
    heading.put("model  ".rjust(model_width), "muted", model_width)
    heading.put("probability" if bar_width > 10 else "prob.", "muted", bar_width + 1)
    heading.put("final".rjust(_PERCENT) if draws else "", "muted", _CAUSE)
    heading.put("arrives" if races else "", "muted")
    for token, row, look in begun:
        row.put(f"{_percent(token.probability)} ".rjust(model_width), look.style, model_width)
        is_cut = token.cut_by is not None
        share = token.final_probability if draws and not is_cut else token.tempered_probability
        row.put(_bar(share, bar_width, is_cut), look.style, bar_width).put(" ")
        row.put(_cause(event, token) if is_cut else _percent(share), look.style, _CAUSE)
        if races and token.arrival is not None:
            row.put(f"{token.arrival:>7.2f}", look.style)


def _put_wide(event: ev.TokenExplained, heading: Row, begun: list[_Begun]) -> None:
    draws = event.temperature > 0.0
    changed = any(token.processed_logit != token.logit for token, *_ in begun)
    stages = ["the model's"]
    if draws:
        stages += [f"temperature {event.temperature:g}", "after the cuts"]
    elif changed:
        masked = any(token.cut_by in ("structured_outputs", "min_tokens") for token, *_ in begun)
        stages.append("after the mask" if masked else "after penalties")
    logit_width = 15 if changed else 8
    room = heading.room - logit_width - len(stages) * (_PERCENT + 2) - (_LANE + 8 if draws else 0)
    bar_width = max(min(room // len(stages), _LONGEST_BAR), 4)
    heading.put("logit", "muted", logit_width)
    for name in stages:
        heading.put(f"  {name}", "muted", bar_width + _PERCENT + 2)
    if draws:
        title = "race: shortest wins" if event.token_id is not None else "race: next"
        heading.put(f"{'random':>7} {title}", "muted")
    limit = _race_limit(begun)
    for token, row, look in begun:
        row.put(_logit(token), look.style, logit_width)
        shares = (token.probability, token.tempered_probability, token.final_probability)
        for number, share in enumerate(shares[: len(stages)]):
            if number == 2 and token.cut_by is not None:
                cut_by = "" if token.cut_by in _MASKED else "cut by "
                row.put(cut_by + _cause(event, token), "warn", bar_width + _PERCENT + 2)
                continue
            bar = "muted" if draws and number < 2 and not look.mark else look.style
            row.put(_percent(share), look.style).put(" ")
            row.put(_bar(share, bar_width), bar, bar_width).put(" ")
        if token.arrival is not None:
            row.put(f"{token.draw:>7.2f}", look.style).put(" ")
            _put_lane(row, token.arrival, limit, look.style)


def _put_lane(row: Row, arrival: float, limit: float, style: str) -> None:
    """The way of a token to its arrival time; an arrow if it is still on its way at the end."""
    figure = f" {arrival:.2f}"
    track = max(min(row.room, _LONGEST_LANE) - 8, 1)
    way = round(min(arrival / limit, 1.0) * (track - 1))
    row.put("─" * way + ("●" if arrival <= limit else "→"), style).put(figure, style)


def _race_limit(begun: list[_Begun]) -> float:
    arrivals = [token.arrival for token, *_ in begun if token.arrival is not None]
    if not arrivals:
        return 1.0
    return max(min(max(arrivals), _RACE_LIMIT * min(arrivals)), 1e-9)


def _look(event: ev.TokenExplained, token: ev.TokenCandidate) -> _Look:
    if token.token_id == event.token_id:
        return _Look("good*", "good*", "▶")
    if token.cut_by is not None:
        return _Look("faint", "faint~", "×")
    return _Look("text", "text", "")


def _cause(event: ev.TokenExplained, token: ev.TokenCandidate) -> str:
    """What removed the token."""
    if token.cut_by in _MASKED:
        return _MASKED[token.cut_by]
    cut = next((cut for cut in event.cuts if cut.name == token.cut_by), None)
    return token.cut_by.replace("_", "-") if cut is None else cut_words(cut)


def _percent(share: float) -> str:
    said = f"{share:.1%}" if share >= 0.0005 or not share else "<0.1%"
    return said.rjust(_PERCENT)


def _logit(token: ev.TokenCandidate) -> str:
    if token.processed_logit is None:
        return f"{token.logit:.2f}→masked"
    changed = f"→{token.processed_logit:.2f}" if token.processed_logit != token.logit else ""
    return f"{token.logit:.2f}{changed}"


def _bar(share: float, width: int, is_cut: bool = False) -> str:
    halves = round(min(max(share, 0.0), 1.0) * 2 * width)
    if is_cut:
        return "░" * max(halves // 2, 1)
    return "█" * (halves // 2) + "▌" * (halves % 2) or "│"
