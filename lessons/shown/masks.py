"""Automata and masks as text drawings, for lesson 15."""

from collections.abc import Sequence as Seq
from itertools import pairwise

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.structured_output.reference import NOTHING, RegexAutomaton
from minivllm.text import visible


def next_bytes(automaton: RegexAutomaton, text: str) -> list[str]:
    """The ASCII characters that may follow `text`."""
    state = automaton.advance(automaton.start, text.encode())
    return [chr(one) for one in range(128) if automaton.advance(state, bytes([one])) != NOTHING]


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
    pieces = [(vocabulary[one] or b"<end>").decode(errors="replace") for one in token_ids]
    return " ".join(f"`{visible(piece)}`" for piece in pieces)


def mask_figure(engine: LessonEngine, event: ev.TokenExplained) -> tuple[str, ...]:
    """The candidates of a token: the model's probability, and what the mask says."""
    pieces = engine.fold.token_pieces
    rows = ["token         the model   the mask"]
    for one in sorted(event.candidates, key=lambda one: -one.probability):
        said = "refused" if one.cut_by == "structured_outputs" else "allowed"
        word = visible(pieces.get(one.token_id, str(one.token_id)))
        rows.append(f"{word:12}{percent(one.probability):>11}   {said:>8}")
    return tuple(rows)


def wanted_after(engine: LessonEngine, text: str) -> str:
    """The model's favourite, allowed or not, after the token `text`; empty if that never came."""
    pieces = engine.fold.token_pieces
    for one, after in pairwise(engine.events_of(ev.TokenExplained)):
        if pieces[one.token_id] == text:
            return pieces[max(after.candidates, key=lambda other: other.probability).token_id]
    return ""


def percent(share: float) -> str:
    """`75.0 %`; four digits for small shares."""
    return f"{100 * share:.1f} %" if share >= 0.1 else f"{100 * share:.4g} %"


def num_common(read: Seq[int], wanted: Seq[int]) -> int:
    """How many tokens two lists have in common, from the first on."""
    pairs = enumerate(zip(read, wanted, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(read), len(wanted)))
