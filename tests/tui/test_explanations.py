"""The panel "Why this token", the sentence of `w`, and what the dashboard remembers of them."""

from types import SimpleNamespace

import pytest
from support.engine.random_runs import folded
from support.tui.driven_app import app_for, drawn, drive, panel, put, show_screen, until
from support.tui.shown import missing_from, rows

from minivllm.events import types as ev
from minivllm.tui.answers.why import why
from minivllm.tui.answers.why_tokens import why_token
from minivllm.tui.draw.selection import Selection, sequence
from minivllm.tui.state.decisions import sampling_words, sentence_of
from minivllm.tui.state.explanations import KEPT, piece_of
from minivllm.tui.state.model import MODELS, DashboardModel
from minivllm.tui.widgets.requests.request_detail import RequestDetail
from minivllm.tui.widgets.requests.why_token import WhyToken

DRAWN = (
    ev.TokenCandidate(7, 5.5, 5.5, 0.41, 0.5, 0.625, None, 0.5),
    ev.TokenCandidate(8, 5.0, 5.0, 0.25, 0.3, 0.375, None, 0.9),
    ev.TokenCandidate(9, 4.0, 4.0, 0.09, 0.1, 0.0, "top_p"),
    ev.TokenCandidate(3, 6.0, None, 0.2, 0.0, 0.0, "min_tokens"),
)
BEAMS = (
    ev.BeamCandidate("r0.1", 4, -0.5, -2.25, "continues"),
    ev.BeamCandidate("r0.0", 5, -0.75, -2.5, "ends"),
    ev.BeamCandidate("r0.2", 6, -1.5, -3.75, "dropped"),
)


def explained(model: DashboardModel, seq_id: str = "r0.0", **fields) -> ev.TokenExplained:
    given = {
        "temperature": 0.8, "vocab_size": 2048, "num_left": 2, "candidates": DRAWN,
        "cuts": (ev.SamplingCut("top_p", 0.9, 2),), **fields,
    }  # fmt: skip
    position = given.pop("position", model.fold.sequences[seq_id].num_tokens - 1)
    return ev.TokenExplained(
        model.fold.last_seq + 1, model.fold.step, 1.0, seq_id, position, 7, **given
    )


@pytest.fixture
def model(shared_prefix) -> DashboardModel:
    model = folded(shared_prefix.run(22))
    model.fold.token_pieces.clear()  # as in an old recording
    return model


def shown(model: DashboardModel, seq_id: str | None, width: int = 90) -> list[str]:
    drawn_panel = WhyToken()
    drawn_panel.context = SimpleNamespace(selection=Selection(seq_id=seq_id), ascii=False)
    return rows(drawn_panel, model, width, 20)


def test_the_sentence_says_who_won_against_whom_and_what_was_cut(model) -> None:
    assert why_token(model, explained(model)) == (
        "token 7 won the draw with probability 62.5% after top-p 0.9 cut 2,046 of 2,048 tokens; it"
        " arrived at 0.80, before token 8 (37.5%) at 2.40; the model itself preferred token 3,"
        " which is masked"
    )


def test_the_sentence_of_a_greedy_token_has_the_margin_to_the_second(model) -> None:
    best = (
        ev.TokenCandidate(7, 5.5, 5.5, 0.41, 0.41, 1.0),
        ev.TokenCandidate(8, 5.0, 5.0, 0.25, 0.25),
    )
    event = explained(model, temperature=0.0, num_left=1, candidates=best, cuts=())
    assert why_token(model, event) == (
        "token 7 was the most likely token (41.0%): its logit 5.50 is 0.50 above that of token 8"
    )
    assert why_token(model, explained(model, num_left=1, candidates=DRAWN[:1])) == (
        "token 7 was the only token left after top-p 0.9 cut 2,047 of 2,048 tokens"
    )


def test_a_search_is_explained_by_the_scores_of_its_beams(model) -> None:
    event = explained(model, candidates=(), cuts=(), num_left=0, vocab_size=0, beams=BEAMS)
    assert why_token(model, event) == (
        "1 beam of r0 goes on with scores from -2.25 to -2.25; 1 text ended, the best with -2.50; the"
        " best that was dropped, token 6, has -3.75"
    )
    model.apply(event)
    # One explanation for all beams of the request.
    assert model.explanations.of("r0.2") == event and model.explanations.of("r1.0") is None
    text = "\n".join(shown(model, "r0.2"))
    assert missing_from(text, "goes on", "ends", "dropped", "-2.25", "-2.50", "-3.75") == []


def test_the_panel_lists_each_candidate_with_its_numbers_and_marks_the_winner(model) -> None:
    model.apply(explained(model))
    lines = shown(model, "r0.0")
    table = lines[next(i for i, row in enumerate(lines) if "arrives" in row) :]
    assert [row.split() for row in table] == [
        ["token", "logit", "model", "temp.", "final", "draw", "arrives"],
        [">", "token", "7", "5.50", "41.0%", "50.0%", "62.5%", "0.50", "0.80"],
        ["token", "8", "5.00", "25.0%", "30.0%", "37.5%", "0.90", "2.40"],
        ["token", "9", "4.00", "9.0%", "10.0%", "top-p"],
        ["token", "3", "masked", "20.0%", "0.0%", "masked"],
    ]
    assert "temperature 0.8, top-p 0.9 leaves 2 of 2,048 tokens" in lines[0]
    assert "W explains its next tokens" in shown(model, "r1.0")[0]
    assert shown(model, None) == lines  # without a selection, the newest explanation


def test_w_explains_the_newest_token_only(model) -> None:
    selection = Selection()
    selection.choose(sequence("r0.0"))
    before = why(model, selection)
    model.apply(explained(model))
    assert why(model, selection).startswith(before + " Its newest token: token 7 won the draw")
    model.apply(explained(model, position=1))  # an older token: no longer watched
    assert why(model, selection) == before


def test_a_damaged_explanation_still_has_a_sentence(model) -> None:
    for event in (
        explained(model, candidates=(), num_left=0),
        explained(model, candidates=(ev.TokenCandidate(7, 1.0, None, 0.1, 0.1, 0.0, None, 1.0),)),
        explained(model, candidates=(), beams=BEAMS[2:]),
    ):
        model.apply(event)
        assert why_token(model, event) and shown(model, "r0.0") and sentence_of(event)


def test_only_the_newest_explanations_are_kept_and_a_keyframe_has_them(model) -> None:
    for number in range(KEPT + 9):
        model.explanations.keep(explained(model, "r0.0", position=number))
        name = f"other-{number}.0"
        model.explanations.keep(ev.TokenExplained(1, 1, 1.0, name, 5, 7, 0.0, 9, 1, DRAWN))
    assert len(model.explanations.by_name) == KEPT
    assert model.explanations.last.seq_id == f"other-{KEPT + 8}.0"
    restored = MODELS.restore(model.header, MODELS.pack(model), model)
    assert restored.explanations == model.explanations


def test_a_token_without_a_text_is_named_by_its_id(model) -> None:
    assert piece_of(model.fold, 7) == "token 7"
    model.fold.token_pieces[7] = " cat"
    assert piece_of(model.fold, 7) == "“·cat”"


def test_a_request_shows_how_it_is_sampled(model) -> None:
    sampling = ev.RequestSampling(temperature=0.7, top_p=0.9, stop=["\x1b[2J"])
    assert sampling_words(sampling) == "temperature 0.7, top_p 0.9, stop ['\\x1b[2J']"
    assert sampling_words(ev.RequestSampling()) == "temperature 1"
    detail = RequestDetail()
    detail.context = SimpleNamespace(selection=Selection(seq_id="r0.0"), ascii=False)
    assert "temperature 0" in "\n".join(rows(detail, model, 120, 20))


def test_the_panel_appears_on_the_requests_screen_with_the_first_explanation(shared_prefix) -> None:
    app = app_for(shared_prefix.run(22))

    async def look(pilot) -> None:
        await show_screen(pilot, "requests")
        assert not panel(app, "why-token").display
        put(app, explained(app.model))
        await until(pilot, lambda: panel(app, "why-token").display)
        await until(pilot, lambda: "won the draw" in "\n".join(drawn(app, "why-token")))

    drive(app, look)
