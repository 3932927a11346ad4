"""The stages of sampling as text drawings, for the lesson about sampling."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from minivllm.errors import LessonError
from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import LESSON_MODEL
from minivllm.text import visible


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
    return [one for one in events if one.seq_id == f"{request_id}.0"][-1]


def stays(event: ev.TokenExplained, token_id: int) -> bool:
    """Whether a candidate could still be drawn after all cuts."""
    return any(one.token_id == token_id and one.cut_by is None for one in event.candidates)


def temperatures_figure(engine: LessonEngine, events: Seq[ev.TokenExplained]) -> tuple[str, ...]:
    """The best tokens of one row of logits, at several temperatures."""
    best = events[0].candidates[:5]
    rows = ["temperature " + "".join(f"{event.temperature:>6g}" for event in events)]
    for one in best:
        figures = "".join(f"{_share_of(event, one.token_id):>6.0%}" for event in events)
        rows.append(f"{word(engine, one.token_id):12}{figures}")
    return tuple(rows)


def race_figure(engine: LessonEngine, event: ev.TokenExplained) -> tuple[str, ...]:
    """What each token of a draw brings along: its final probability and its random number."""
    rows = ["token   probability  random"]
    for one in event.candidates:
        if one.draw is not None:
            shown = word(engine, one.token_id)
            rows.append(f"{shown:10}{one.final_probability:>8.1%}{one.draw:>9.2f}")
    return tuple(rows)


def count(engine: LessonEngine, token_id: int) -> int:
    """How often the engine has sampled this token."""
    return sum(event.token_id == token_id for event in engine.events_of(ev.TokenSampled))


def num_different(a: LessonEngine, b: LessonEngine, request_id: str) -> int:
    """How many of a request's output tokens differ between two engines."""
    pairs = zip(a.output_tokens(request_id), b.output_tokens(request_id), strict=True)
    return sum(one != other for one, other in pairs)


def second_leads(engine: LessonEngine, first: int, second: int, names: Mapping[str, str]) -> str:
    """Where the second token is more likely than the first; `at no temperature` if nowhere.

    names: request -> words for its temperature
    """
    leads = [name for name in names if ratio(explained(engine, name), second, first) > 1]
    return names[leads[0]] if leads else "at no temperature"


def ratio(event: ev.TokenExplained, one: int, other: int) -> float:
    """How many times as likely one token is as another, after temperature."""
    return _share_of(event, one) / _share_of(event, other)


def shares(event: ev.TokenExplained, limit: float) -> str:
    """The shares of the best tokens, in per cent, to the second one under the limit."""
    found = [one.probability for one in event.candidates]
    num_above = sum(share >= limit for share in found)
    return ", ".join(f"{share:.1%}" for share in found[: num_above + 2])


def _share_of(event: ev.TokenExplained, token_id: int) -> float:
    return next(one.tempered_probability for one in event.candidates if one.token_id == token_id)
