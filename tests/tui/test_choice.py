"""The choice of a token: what is drawn, the walk through the words, and who is watched."""

from types import SimpleNamespace

import msgspec
import pytest
from support.tui.driven_app import app_for, click, drawn, drive, panel, press, put, told, until
from support.tui.memory_recording import context_of
from support.tui.shown import rows

from minivllm.events import types as ev
from minivllm.text import clean
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import sequence, token
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.choice.choice import Choice

SEQUENCE = "r1.0"
OTHERS = (9_001, 9_002, 9_003)


def probability_of(position: int) -> float:
    """The model's probability of the token at a position: from 5 % to 95 %."""
    return 0.05 + position * 7 % 10 / 10


def candidates(token_id: int, position: int) -> tuple[ev.TokenCandidate, ...]:
    """The winner, a second one, one that top-p cut and one that is masked."""
    share = probability_of(position)
    rest = (1 - share) / 2
    second, cut, masked = OTHERS
    return (
        ev.TokenCandidate(token_id, 5.5, 5.5, share, share, 0.6, None, 0.3),
        ev.TokenCandidate(second, 5.0, 4.0, rest, rest, 0.4, None, 0.9),
        ev.TokenCandidate(cut, 4.0, 4.0, rest / 9, rest / 9, 0.0, "top_p"),
        ev.TokenCandidate(masked, 6.0, None, 0.01, 0.0, 0.0, "min_tokens"),
    )


def explaining(stage, seq_id: str) -> SimpleNamespace:
    """The header and events of `stage`, with an explanation before each token of a sequence."""
    events, num_tokens = [], 0
    cuts = (ev.SamplingCut("top_p", 0.9, 2),)
    for event in stage.events:
        if isinstance(event, ev.RequestArrived) and event.seq_id == seq_id:
            num_tokens = len(event.prompt_token_ids)
        if isinstance(event, ev.TokenSampled) and event.seq_id == seq_id:
            found = candidates(event.token_id, num_tokens)
            given = (seq_id, num_tokens, event.token_id, 0.8, 2048, 2, found, cuts)
            events.append(ev.TokenExplained(event.seq, event.step, event.t, *given))
            num_tokens += 1
        events.append(event)
    numbered = enumerate(events, start=stage.header.first_seq)
    events = [msgspec.structs.replace(event, seq=seq) for seq, event in numbered]
    return SimpleNamespace(header=stage.header, events=events)


@pytest.fixture
def run(shared_prefix):
    return explaining(shared_prefix.run(30), SEQUENCE)


def choice_at(run, position: int) -> tuple[Choice, DashboardModel]:
    """The panel at this place of a run, and what it shows."""
    shown = Choice()
    shown.context = context_of(run, position)
    shown.context.selection.choose(sequence(SEQUENCE))
    return shown, shown.context.transport.view


def replace_last(run, **fields: object) -> None:
    """Give the last explanation of a run other fields."""
    last = explained_in(run.events)[-1]
    run.events[run.events.index(last)] = msgspec.structs.replace(last, **fields)


def explained_in(events: list[ev.Event]) -> list[ev.TokenExplained]:
    return [event for event in events if isinstance(event, ev.TokenExplained)]


def test_what_is_drawn_is_the_last_explanation_among_the_events(run) -> None:
    pieces = {}
    for position in range(0, len(run.events) + 1, 7):
        events = run.events[:position]
        for event in events:
            if isinstance(event, ev.TokensNamed):
                pieces |= event.pieces
        shown, model = choice_at(run, position)
        text = "\n".join(rows(shown, model, 130, 24))
        found = explained_in(events)
        if not found:
            assert "--explain-tokens" in text
            continue
        newest = found[-1]
        words = [clean(pieces[event.token_id]) for event in found[-6:]]
        assert f"token {newest.position}, step {newest.step}" in shown.title(model, 130)
        assert "".join(words).strip() in text.replace("\n", "")
        winner = next(row for row in text.splitlines() if "▶" in row)
        share = f"{probability_of(newest.position):.1%}"
        shares = [word for word in winner.split() if word.endswith("%")]
        assert shares == [share, share, "60.0%"]
        assert "0.30" in winner and "0.50" in winner  # random number and arrival


def test_a_cut_token_is_struck_out_and_its_row_has_the_cause(run) -> None:
    shown, model = choice_at(run, len(run.events))
    for width in (44, 80, 130):
        lines, by_mark = shown.lines(model, width, 20), {}
        for line in lines:
            if line:
                by_mark.setdefault(line[0][0].strip(), []).append(line)
        cut, masked = by_mark["×"]
        for line, cause in ((cut, "top-p 0.9"), (masked, "masked")):
            assert line[1][1] == "faint~" and cause in text_of(line)
        (winner,) = by_mark["▶"]
        assert {span[1] for span in winner if span[0].strip()} == {"good*"}
        assert "2.25" in "".join(map(text_of, lines))  # the second arrives


def test_a_greedy_choice_has_the_models_probabilities_and_no_race(run) -> None:
    last = explained_in(run.events)[-1]
    share = probability_of(last.position)
    found = tuple(
        msgspec.structs.replace(token, final_probability=float(index == 0), cut_by=None, draw=None)
        for index, token in enumerate(last.candidates[:2])
    )
    replace_last(run, temperature=0.0, candidates=found, cuts=(), num_left=1)
    shown, model = choice_at(run, len(run.events))
    for width in (44, 80, 130):
        text = rows(shown, model, width, 12)
        winner = next(row for row in text if "▶" in row)
        assert f"{share:.1%}" in winner and "100.0%" not in winner
        assert not any("race" in row or "arrives" in row or "cuts" in row for row in text)


def test_before_the_draw_there_are_candidates_and_no_winner(run) -> None:
    last = explained_in(run.events)[-1]
    index = run.events.index(last)
    undrawn = tuple(msgspec.structs.replace(candidate, draw=None) for candidate in last.candidates)
    replace_last(run, token_id=None, candidates=undrawn)
    del run.events[index + 1 :]
    shown, model = choice_at(run, index + 1)
    assert "before sample" in shown.title(model, 130)
    for size in ((130, 20), (60, 8), (44, 5)):
        text = "\n".join(rows(shown, model, *size))
        assert " ?\n" in text and "▶" not in text and "60.0%" in text


def test_the_keys_walk_through_the_words_and_new_words_do_not_interrupt_it(shared_prefix) -> None:
    run = explaining(shared_prefix.run(30), SEQUENCE)
    stop = len(run.events) - 40
    waiting, run.events = run.events[stop:], run.events[:stop]
    app = app_for(run)
    positions = [event.position for event in explained_in(run.events)]

    async def look(pilot) -> None:
        app.context.selection.choose(sequence(SEQUENCE))
        await press(pilot, "7")
        title = lambda: str(panel(app, "choice").border_title)  # noqa: E731
        for back in (1, 2, 3):
            await press(pilot, "less_than_sign")
            position = positions[-1 - back]
            assert f"token {position}," in title()
            winner = next(row for row in drawn(app, "choice") if "▶" in row)
            assert f"{probability_of(position):.1%}" in winner
            spans = [span for line in panel(app, "choice")._lines for span in line]
            lit = {span[1:] for span in spans if span[1] == "accent*!" and span[2:]}
            assert lit == {("accent*!", token(SEQUENCE, position))}
        put(app, *waiting)
        await until(pilot, lambda: app.model.fold.last_seq == waiting[-1].seq)
        assert f"token {position}," in title()
        await press(pilot, "escape", "7")  # leaves the screen; the word stays selected
        while "newest" not in " ".join(told(app)):
            await press(pilot, "greater_than_sign")
        assert app.context.selection.position is None
        assert f"token {explained_in(waiting)[-1].position}," in title()

    drive(app, look)


def test_a_click_on_a_word_shows_its_choice_and_enter_opens_the_screen(run) -> None:
    app = app_for(run)
    ids = [event.token_id for event in explained_in(run.events)]
    found = next(word for word in explained_in(run.events)[-3::-1] if ids.count(word.token_id) == 1)

    async def look(pilot) -> None:
        app.context.selection.choose(sequence(SEQUENCE))
        await press(pilot, "7")
        wanted = token(SEQUENCE, found.position)
        rows = panel(app, "choice")._lines
        row = next(row for row in rows if any(wanted in span[2:] for span in row))
        begin = next(at for at, span in enumerate(row) if wanted in span[2:])
        await click(pilot, "choice", text_of(row[begin:]).lstrip())
        assert app.context.selection.last == wanted
        await press(pilot, "1")
        assert f"token {found.position}," in str(panel(app, "overview-choice").border_title)
        await press(pilot, "enter")
        assert app.current_mode == "choice"

    drive(app, look)


def test_the_winner_is_shown_even_where_there_is_room_for_one_candidate(run) -> None:
    last = explained_in(run.events)[-1]
    found = candidates(last.token_id, last.position)
    replace_last(run, candidates=found[1:] + found[:1])
    text = rows(*choice_at(run, len(run.events)), 60, 3)
    assert "▶" in text[-1] and "60.0%" in text[-1]
    bars = []
    for share in (0.2, 0.8):  # alone in the panel
        alone = ev.TokenCandidate(last.token_id, 5.5, 5.5, share, share, 1.0)
        replace_last(run, temperature=0.0, candidates=(alone,), cuts=(), num_left=1)
        bars.append(rows(*choice_at(run, len(run.events)), 60, 3)[-1].count("█"))
    assert abs(4 * bars[0] - bars[1]) <= 3 < bars[1]
