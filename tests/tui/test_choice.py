"""The choice of a token: what is drawn, the walk through the words, and who is watched."""

import msgspec
import pytest
from support.engine.random_runs import folded
from support.tui.driven_app import (
    app_for,
    click,
    drawn,
    drive,
    panel,
    put,
    settle,
    show_screen,
    told,
    until,
)
from support.tui.explained import candidates, explaining, probability_of
from support.tui.key_seat import FakeControl
from support.tui.memory_recording import context_of
from support.tui.shown import rows

from minivllm.events import types as ev
from minivllm.text import clean, short_name, visible
from minivllm.tui.answers.why_tokens import how_to_explain
from minivllm.tui.draw.confidence import confidence_style
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import sequence, token
from minivllm.tui.draw.theme import Palette
from minivllm.tui.widgets.choice.choice import Choice, shows_choice
from minivllm.tui.widgets.choice.sentence import filmstrip
from minivllm.tui.widgets.requests.slots import Slots

SEQUENCE = "r1.0"


@pytest.fixture
def run(shared_prefix):
    return explaining(shared_prefix.run(30), SEQUENCE)


def choice_at(run, position: int, seq_id: str | None = SEQUENCE, **options) -> Choice:
    shown = Choice()
    shown.context = context_of(run, position, **options)
    if seq_id is not None:
        shown.context.selection.choose(sequence(seq_id))
    return shown


def explained_in(events: list[ev.Event]) -> list[ev.TokenExplained]:
    return [one for one in events if isinstance(one, ev.TokenExplained)]


def test_what_is_drawn_is_the_last_explanation_among_the_events(run) -> None:
    pieces = {}
    for position in range(0, len(run.events) + 1, 7):
        events = run.events[:position]
        for one in events:
            if isinstance(one, ev.TokensNamed):
                pieces |= one.pieces
        shown = choice_at(run, position)
        model = shown.context.transport.view
        text = "\n".join(rows(shown, model, 130, 24))
        found = explained_in(events)
        if not found:
            assert "--explain-tokens" in text
            continue
        newest = found[-1]
        words = [clean(pieces[one.token_id]) for one in found[-6:]]
        assert f"token {newest.position}, step {newest.step}" in shown.title(model, 130)
        assert "".join(words).strip() in text.replace("\n", "")
        winner = next(row for row in text.splitlines() if "▶" in row)
        share = f"{probability_of(newest.position):.1%}"
        assert winner.split()[2:] and [share, share, "60.0%"] == [
            word for word in winner.split() if word.endswith("%")
        ]
        assert "0.30" in winner and "0.50" in winner  # random number and arrival


@pytest.mark.parametrize("size", [(30, 2), (30, 4), (47, 8), (90, 20)])
def test_the_last_words_with_their_likelihoods_fill_the_rows(size: tuple[int, int], run) -> None:
    model = context_of(run, len(run.events)).transport.view
    width, height = size
    pieces, judged = model.fold.token_pieces, model.explanations.judged[SEQUENCE]
    for number in (1, 8, len(judged)):
        words = [visible(pieces[one.token_id]) for one in judged[:number]]
        percents = [f"{one.percent}%" for one in judged[:number]]
        cells = [
            max(len(word), len(figure)) + 1 for word, figure in zip(words, percents, strict=True)
        ]
        drawn_lines = filmstrip(model, SEQUENCE, judged[number - 1].position, *size)
        lines = [text_of(line) for line in drawn_lines]
        assert len(lines) <= height and all(len(line) <= width for line in lines)
        strips = [strip.split("\n") for strip in "\n".join(lines).split("\n\n")]
        shown = [strip[-2].split() for strip in strips]
        count = sum(map(len, shown))
        assert [word for row in shown for word in row] == words[-count:]
        assert [word for strip in strips for word in strip[-1].split()] == percents[-count:]
        if count < number:
            assert len(strips) == (height + 1) // 3
            for at, strip in enumerate(strips):
                left_out = number - sum(map(len, shown[at:])) - 1
                assert len(strip[-2]) + cells[left_out] > width, "no room for the word before"
        start = number - count
        for strip, row in zip(strips, shown, strict=True):
            bars, x = strip[:-2], 0
            num_rows = min((height + 1) // len(strips) - 3, 16)
            assert len(bars) <= num_rows and all(bar.strip() for bar in bars[:1])
            for position in range(start, start + len(row)):
                eighths = sum(" ▁▂▃▄▅▆▇█".index(bar[x]) for bar in bars)
                assert eighths == round(8 * num_rows * judged[position].percent / 100)
                x += cells[position]
            start += len(row)


def test_a_cut_token_is_struck_out_and_its_row_has_the_cause(run) -> None:
    for width in (44, 80, 130):
        shown = choice_at(run, len(run.events))
        lines = shown.lines(shown.context.transport.view, width, 20)
        by_mark = {}
        for line in lines:
            if line:
                by_mark.setdefault(line[0][0].strip(), []).append(line)
        cut, masked = by_mark["×"]
        for line, cause in ((cut, "top-p 0.9"), (masked, "masked")):
            assert line[1][1] == "faint~" and cause in "".join(text for text, _ in line)
        (winner,) = by_mark["▶"]
        assert {style for text, style in winner if text.strip()} == {"good*"}
        assert "2.25" in "".join(text for line in lines for text, _ in line)  # the second arrives


def test_a_greedy_choice_has_the_models_probabilities_and_no_race(run) -> None:
    last = explained_in(run.events)[-1]
    share = probability_of(last.position)
    found = tuple(
        msgspec.structs.replace(one, final_probability=float(index == 0), cut_by=None, draw=None)
        for index, one in enumerate(last.candidates[:2])
    )
    greedy = msgspec.structs.replace(last, temperature=0.0, candidates=found, cuts=(), num_left=1)
    run.events[run.events.index(last)] = greedy
    shown = choice_at(run, len(run.events))
    for width in (44, 80, 130):
        text = rows(shown, shown.context.transport.view, width, 12)
        winner = next(row for row in text if "▶" in row)
        assert f"{share:.1%}" in winner and "100.0%" not in winner
        assert not any("race" in row or "arrives" in row or "cuts" in row for row in text)


def test_the_winner_is_shown_even_where_there_is_room_for_one_candidate(run) -> None:
    last = explained_in(run.events)[-1]
    found = candidates(last.token_id, last.position)
    late = msgspec.structs.replace(last, candidates=found[1:] + found[:1])
    run.events[run.events.index(last)] = late
    shown = choice_at(run, len(run.events))
    text = rows(shown, shown.context.transport.view, 60, 3)
    assert "▶" in text[-1] and "60.0%" in text[-1]


def test_a_beam_search_has_the_scores_of_its_beams(beams) -> None:
    stage = beams.run(9)
    end = stage.events[-1]
    offered = (
        ev.BeamCandidate("r0.1", 4, -0.5, -2.25, "continues"),
        ev.BeamCandidate("r0.0", 5, -0.75, -2.5, "ends"),
        ev.BeamCandidate("r0.2", 6, -1.5, -3.75, "dropped"),
    )
    given = ("r0.1", 40, 4, 1.0, 0, 0, (), (), offered)
    stage.events.append(ev.TokenExplained(end.seq + 1, end.step, end.t, *given))
    shown = choice_at(stage, len(stage.events), "r0.2")
    text = "\n".join(rows(shown, shown.context.transport.view, 90, 20))
    for fact in ("goes on", "ends", "dropped", "-2.25", "-2.50", "-3.75", "beam search"):
        assert fact in text


def test_before_the_draw_there_are_candidates_and_no_winner(run) -> None:
    last = explained_in(run.events)[-1]
    index = run.events.index(last)
    undrawn = tuple(msgspec.structs.replace(one, draw=None) for one in last.candidates)
    run.events[index] = msgspec.structs.replace(last, token_id=None, candidates=undrawn)
    del run.events[index + 1 :]
    shown = choice_at(run, index + 1)
    model = shown.context.transport.view
    assert "before sample" in shown.title(model, 130)
    for size in ((130, 20), (60, 8), (44, 5)):
        text = "\n".join(rows(shown, model, *size))
        assert " ?\n" in text and "▶" not in text and "60.0%" in text


def test_the_keys_walk_through_the_words_and_new_words_do_not_interrupt_it(shared_prefix) -> None:
    run = explaining(shared_prefix.run(30), SEQUENCE)
    stop = len(run.events) - 40
    waiting, run.events = run.events[stop:], run.events[:stop]
    app = app_for(run)
    positions = [one.position for one in explained_in(run.events)]

    async def look(pilot) -> None:
        app.context.selection.choose(sequence(SEQUENCE))
        await show_screen(pilot, "choice")
        title = lambda: str(panel(app, "choice").border_title)  # noqa: E731
        for back in range(1, 5):
            await pilot.press("less_than_sign")
            await settle(pilot)
            position = positions[-1 - back]
            assert f"token {position}," in title()
            winner = next(row for row in drawn(app, "choice") if "▶" in row)
            assert f"{probability_of(position):.1%}" in winner
            spans = [span for line in panel(app, "choice")._lines for span in line]
            lit = {style for _, style in spans if "!@token" in style}
            assert lit == {f"accent*!@{token(SEQUENCE, position)}"}
        put(app, *waiting)
        await until(pilot, lambda: app.model.fold.last_seq == waiting[-1].seq)
        assert f"token {position}," in title()
        await pilot.press("escape")  # leaves the screen; the word stays selected
        await show_screen(pilot, "choice")
        for _ in range(60):
            await pilot.press("greater_than_sign")
        await settle(pilot)
        assert "newest" in told(app)[-1] and app.context.selection.position is None
        assert f"token {explained_in(waiting)[-1].position}," in title()
        for _ in range(90):
            await pilot.press("less_than_sign")
        assert f"No earlier token of {short_name(SEQUENCE)} is explained." in told(app)
        assert app.context.selection.position == positions[0]

    drive(app, look)


def test_a_click_on_a_word_shows_its_choice_and_enter_opens_the_screen(run) -> None:
    app = app_for(run)
    ids = [one.token_id for one in explained_in(run.events)]
    found = next(one for one in explained_in(run.events)[-3::-1] if ids.count(one.token_id) == 1)

    async def look(pilot) -> None:
        app.context.selection.choose(sequence(SEQUENCE))
        await show_screen(pilot, "choice")
        word = app.model.fold.token_pieces[found.token_id].strip()
        await click(pilot, "choice", f"·{word} ")
        assert app.context.selection.last == token(SEQUENCE, found.position)
        await show_screen(pilot, "overview")
        assert f"token {found.position}," in str(panel(app, "overview-choice").border_title)
        await pilot.press("enter")
        await settle(pilot)
        assert app.current_mode == "choice"

    drive(app, look)


def test_the_overview_has_the_choice_in_place_of_the_events_while_it_is_explained(run) -> None:
    app = app_for(run)

    async def look(pilot) -> None:
        await show_screen(pilot, "overview")
        app.context.selection.choose(sequence("r0.0"))
        app.draw()
        await settle(pilot)
        places = {one.id: one.region for one in app.screen.panels() if one.display}
        assert "eventlog" in places and "overview-choice" not in places
        app.context.selection.choose(sequence(SEQUENCE))
        app.draw()
        await settle(pilot)
        after = {one.id: one.region for one in app.screen.panels() if one.display}
        assert after.pop("overview-choice") == places.pop("eventlog")
        assert after == places  # every other panel kept its place and height

    drive(app, look)


def test_the_overview_returns_to_the_events_some_steps_after_the_end(shared_prefix) -> None:
    run = explaining(shared_prefix.run(), SEQUENCE)
    end = next(
        one.step
        for one in run.events
        if isinstance(one, ev.RequestFinished) and one.seq_id == SEQUENCE
    )
    for chosen in (SEQUENCE, None):
        shown = choice_at(run, len(run.events), chosen)
        transport, selection = shown.context.transport, shown.context.selection
        for step, expected in ((end - 1, True), (end + 1, True), (end + 9, False)):
            transport.to_step(step)
            assert transport.view.fold.step == step
            assert shows_choice(transport.view, selection) == expected


def test_a_selected_sequence_is_watched_once_and_only_until_w_stops_it(shared_prefix) -> None:
    app = app_for(shared_prefix.run(22), control=(control := FakeControl()))

    async def look(pilot) -> None:
        await show_screen(pilot, "overview")
        name = app.model.fold.running[0]
        calls = lambda: [one for one in control.calls if one[0] == "explain_tokens"]  # noqa: E731
        for _ in range(2):
            await click(pilot, "slots", short_name(name))
            assert calls() == [("explain_tokens", name, True)]
        await pilot.press("W")
        await click(pilot, "slots", short_name(name))
        assert calls()[1:] == [("explain_tokens", name, False)]
        await click(pilot, "blockmap", "0")
        assert len(calls()) == 2

    drive(app, look)


@pytest.mark.parametrize("key", ["7", "N"])
def test_the_choice_screen_and_phases_watch_the_first_sequence_if_none_is_selected(
    key: str, shared_prefix
) -> None:
    app = app_for(shared_prefix.run(22), control=(control := FakeControl()))

    async def look(pilot) -> None:
        await pilot.press(key)
        await show_screen(pilot, "choice")
        first = app.model.fold.running[0]
        calls = [call for call in control.calls if call[0] in ("explain_tokens", "step_phase")]
        assert calls == [("explain_tokens", first, True), ("step_phase",)][: 1 + (key == "N")]
        assert app.context.selection.seq_id == first
        assert "its next one is" in " ".join(drawn(app, "choice"))

    drive(app, look)


def test_without_explanations_one_sentence_says_how_to_get_them(shared_prefix) -> None:
    stage = shared_prefix.run(22)
    context = context_of(stage)
    model, recording = context.transport.view, "--explain-tokens --record"
    assert recording in how_to_explain(context, model, None)
    assert recording in how_to_explain(context, model, SEQUENCE)
    context.transport.source.status = context.transport.source.status.__class__(state="live")
    said = how_to_explain(context, model, SEQUENCE)
    assert "another process" in said and "--explain-tokens" in said
    context.control = FakeControl()
    assert "select a sequence" in how_to_explain(context, model, None)
    assert "its next one is" in how_to_explain(context, model, model.fold.running[0])
    assert "has ended" in how_to_explain(context, model, "nobody.0")
    # The picture is of a moment before the end.
    context = context_of(shared_prefix.run())
    context.control = FakeControl()
    context.transport.to_step(22)
    seq_id = context.transport.view.fold.running[0]
    said = how_to_explain(context, context.transport.view, seq_id)
    assert (
        said == f"No token of {short_name(seq_id)} is explained up to here, and it has ended since."
    )


def test_w_on_an_attached_engine_names_the_option(run) -> None:
    app = app_for(run)

    async def look(pilot) -> None:
        app.context.selection.choose(sequence("r0.0"))
        await pilot.press("W")
        assert "--explain-tokens" in told(app)[-1]

    drive(app, look)


def test_the_words_in_the_slots_are_coloured_by_the_probability_of_each(run) -> None:
    slots = Slots()
    slots.context = context_of(run)
    model = slots.context.transport.view
    row = model.fold.sequences[SEQUENCE].slot
    plain = slots.lines(model, 110, 4)[row]
    slots.context.shows_confidence = True
    coloured = slots.lines(model, 110, 4)[row]
    assert "".join(text for text, _ in plain) == "".join(text for text, _ in coloured)
    pieces = model.fold.token_pieces
    words = [(text, style) for text, style in coloured[::-1] if text.strip()]
    for event, (text, style) in zip(explained_in(run.events)[:-6:-1], words, strict=False):
        assert text.strip() == clean(pieces[event.token_id]).strip()
        percent = round(100 * probability_of(event.position))
        assert style.partition("@")[0] == confidence_style(percent)
    # Other sequences keep their colour.
    others = [line for number, line in enumerate(slots.lines(model, 110, 4)) if number != row]
    slots.context.shows_confidence = False
    assert others == [line for n, line in enumerate(slots.lines(model, 110, 4)) if n != row]


def test_unlikely_words_are_marked_without_colours() -> None:
    palette = Palette(dark=True)
    marks = [palette.style(confidence_style(percent)) for percent in (3, 20, 45, 99, None)]
    assert [bool(style.underline) for style in marks] == [True, True, False, False, False]
    assert len({style.color for style in marks}) == 5


def test_the_score_of_a_beam_is_not_taken_for_the_probability_of_its_last_token(beams):
    run = beams.run()
    assert any(
        event.logprob is not None for event in run.events if isinstance(event, ev.TokenSampled)
    )
    model = folded(run)
    assert not model.explanations.judged
