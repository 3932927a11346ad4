"""Tokens that are drawn (lesson 11), drafted (14) or masked (15), as text drawings."""

import re
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from itertools import pairwise

from minivllm.errors import LessonError
from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import LESSON_MODEL
from minivllm.speculation import drafter
from minivllm.structured_output.reference import NOTHING, RegexAutomaton
from minivllm.text import visible

# ---- drawn ----


def word(engine: LessonEngine, token_id: int) -> str:
    """A token's text without the space before it."""
    return visible(engine.fold.token_pieces[token_id].strip())


def refuse_other_models(engine: LessonEngine) -> None:
    """Raise `LessonError` unless it is the house model, whose probabilities the questions need."""
    if engine.loaded.name != LESSON_MODEL:
        raise LessonError(
            f"This lesson's questions are about probabilities of the model {LESSON_MODEL!r}:"
            " leave --model out."
        )


def explained(engine: LessonEngine, request_id: str) -> ev.TokenExplained:
    """Why the request got its newest token."""
    events = engine.events_of(ev.TokenExplained)
    return [event for event in events if event.seq_id == f"{request_id}.0"][-1]


def stays(event: ev.TokenExplained, token_id: int) -> bool:
    """Whether a candidate could still be drawn after all cuts."""
    return any(same.token_id == token_id and same.cut_by is None for same in event.candidates)


def temperatures_figure(engine: LessonEngine, events: Seq[ev.TokenExplained]) -> tuple[str, ...]:
    """The best tokens of one row of logits, at several temperatures."""
    best = events[0].candidates[:5]
    rows = ["temperature " + "".join(f"{event.temperature:>6g}" for event in events)]
    for candidate in best:
        figures = "".join(f"{_share_of(event, candidate.token_id):>6.0%}" for event in events)
        rows.append(f"{word(engine, candidate.token_id):12}{figures}")
    return tuple(rows)


def race_figure(engine: LessonEngine, event: ev.TokenExplained) -> tuple[str, ...]:
    """What each token of a draw brings along: its final probability and its random number."""
    rows = ["token   probability  random"]
    for candidate in event.candidates:
        if candidate.draw is not None:
            shown = word(engine, candidate.token_id)
            rows.append(f"{shown:10}{candidate.final_probability:>8.1%}{candidate.draw:>9.2f}")
    return tuple(rows)


def count(engine: LessonEngine, token_id: int) -> int:
    """How often the engine has sampled this token."""
    return sum(event.token_id == token_id for event in engine.events_of(ev.TokenSampled))


def num_different(a: LessonEngine, b: LessonEngine, request_id: str) -> int:
    """How many of a request's output tokens differ between two engines."""
    pairs = zip(a.output_tokens(request_id), b.output_tokens(request_id), strict=True)
    return sum(a != b for a, b in pairs)


def second_leads(engine: LessonEngine, first: int, second: int, names: Mapping[str, str]) -> str:
    """Where the second token is more likely than the first; `at no temperature` if nowhere.

    names: request -> words for its temperature
    """
    leads = [name for name in names if ratio(explained(engine, name), second, first) > 1]
    return names[leads[0]] if leads else "at no temperature"


def ratio(event: ev.TokenExplained, token_id: int, other: int) -> float:
    """How many times as likely one token is as another, after temperature."""
    return _share_of(event, token_id) / _share_of(event, other)


def shares(event: ev.TokenExplained, limit: float) -> str:
    """The shares of the best tokens, in per cent, to the second one under the limit."""
    found = [candidate.probability for candidate in event.candidates]
    num_above = sum(share >= limit for share in found)
    return ", ".join(f"{share:.1%}" for share in found[: num_above + 2])


def _share_of(event: ev.TokenExplained, token_id: int) -> float:
    return next(same.tempered_probability for same in event.candidates if same.token_id == token_id)


# ---- drafted ----

_COLUMNS = 6
"""Columns for the time of a step with one row."""


def in_words(engine: LessonEngine, token_ids: Seq[int]) -> str:
    """The texts of tokens, each as a name: `·the` `·moon`."""
    return " ".join(f"`{piece}`" for piece in _pieces(engine, token_ids))


def drafts_and_drawn(engine: LessonEngine, drafts: Seq[int], final: Seq[int]) -> tuple[str, ...]:
    """Drafts above the tokens that a step drew.

    final: the accepted drafts and the model's own token; the rows after it are shown as `-`
    """
    unused = ["-"] * (len(drafts) + 1 - len(final))
    columns = list(
        zip([*_pieces(engine, drafts), ""], [*_pieces(engine, final), *unused], strict=True)
    )
    widths = [max(map(len, column)) for column in columns]
    rows = zip(("drafts", "drawn"), zip(*columns, strict=True), strict=True)
    return tuple(
        f"{name:6}  {'  '.join(map(str.ljust, cells, widths))}".rstrip() for name, cells in rows
    )


def measured_step_times() -> dict[int, float]:
    """Rows of a step -> its time over that of one row, from the docstring of `DraftLengths`."""
    rows, times = (
        re.search(rf"^ +{name} +([\d .]+)$", drafter.DraftLengths.__doc__, re.MULTILINE)[1].split()
        for name in ("rows", "time")
    )
    return dict(zip(map(int, rows), map(float, times), strict=True))


def step_times_figure(times: Mapping[int, float]) -> tuple[str, ...]:
    return tuple(
        f"{rows:3} {'row ' if rows == 1 else 'rows'}  {'=' * round(_COLUMNS * time)} {time}"
        for rows, time in times.items()
    )


def _pieces(engine: LessonEngine, token_ids: Seq[int]) -> list[str]:
    decode = engine.engine.tokenizer.decode
    return [visible(decode([token_id], skip_special_tokens=False)) for token_id in token_ids]


# ---- masked ----


def next_bytes(automaton: RegexAutomaton, text: str) -> list[str]:
    """The ASCII characters that may follow `text`."""
    state = automaton.advance(automaton.start, text.encode())
    return [chr(byte) for byte in range(128) if automaton.advance(state, bytes([byte])) != NOTHING]


def states_figure(automaton: RegexAutomaton, texts: Seq[str]) -> tuple[str, ...]:
    """For each text: which bytes may follow, and whether the text may end."""
    rows = ["text so far   next byte   may end"]
    for text in texts:
        state = automaton.advance(automaton.start, text.encode())
        follow = " ".join(next_bytes(automaton, text)) or "nothing"
        ends = "yes" if automaton.may_end(state) else "no"
        rows.append(f"{text or '(none)':14}{follow:12}{ends}")
    return tuple(rows)


def names(vocabulary: Seq[bytes | None], token_ids: Seq[int]) -> str:
    """Tokens as names: `n` `ye`."""
    pieces = [(vocabulary[token_id] or b"<end>").decode(errors="replace") for token_id in token_ids]
    return " ".join(f"`{visible(piece)}`" for piece in pieces)


def mask_figure(engine: LessonEngine, event: ev.TokenExplained) -> tuple[str, ...]:
    """The candidates of a token: the model's probability, and what the mask says."""
    pieces = engine.fold.token_pieces
    rows = ["token         the model   the mask"]
    for candidate in sorted(event.candidates, key=lambda candidate: -candidate.probability):
        said = "refused" if candidate.cut_by == "structured_outputs" else "allowed"
        word = visible(pieces.get(candidate.token_id, str(candidate.token_id)))
        rows.append(f"{word:12}{percent(candidate.probability):>11}   {said:>8}")
    return tuple(rows)


def wanted_after(engine: LessonEngine, text: str) -> str:
    """The model's favourite, allowed or not, after the token `text`; empty if that never came."""
    pieces = engine.fold.token_pieces
    for event, after in pairwise(engine.events_of(ev.TokenExplained)):
        if pieces[event.token_id] == text:
            return pieces[max(after.candidates, key=lambda other: other.probability).token_id]
    return ""


def percent(share: float) -> str:
    """`75.0 %`; four digits for small shares."""
    return f"{100 * share:.1f} %" if share >= 0.1 else f"{100 * share:.4g} %"
