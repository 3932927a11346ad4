"""Why a token was chosen: the sentence of `w`, and what the dashboard remembers of explanations."""

import pytest
from support.engine.random_runs import folded
from support.tui.shown import ask_why

from minivllm.events import types as ev
from minivllm.tui.answers.why_tokens import why_token
from minivllm.tui.draw.selection import sequence
from minivllm.tui.state.explanations import KEPT
from minivllm.tui.state.model import MODELS, DashboardModel

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
    seq, step = model.fold.last_seq + 1, model.fold.step
    return ev.TokenExplained(seq, step, 1.0, seq_id, position, 7, **given)


@pytest.fixture
def model(shared_prefix) -> DashboardModel:
    model = folded(shared_prefix.run(22))
    model.fold.token_pieces.clear()  # as in an old recording
    return model


def test_the_sentence_says_who_won_against_whom_and_what_was_cut(model) -> None:
    assert why_token(model, explained(model)) == (
        "token 7 won the draw with probability 62.5% after top-p 0.9 cut 2,046 of 2,048 tokens; it"
        " arrived at 0.80, before token 8 (37.5%) at 2.40; the model itself preferred token 3,"
        " which is masked"
    )


def test_a_search_is_explained_by_the_scores_of_its_beams(model) -> None:
    event = explained(model, candidates=(), cuts=(), num_left=0, vocab_size=0, beams=BEAMS)
    assert why_token(model, event) == (
        "1 beam of r0 goes on with scores from -2.25 to -2.25; 1 text ended, the best with"
        " -2.50; the"
        " best that was dropped, token 6, has -3.75"
    )
    model.apply(event)
    # One explanation for all beams of the request.
    assert model.explanations.of("r0.2") == event and model.explanations.of("r1.0") is None


def test_w_explains_the_newest_token_only(model) -> None:
    before = ask_why(model, sequence("r0.0"))
    model.apply(explained(model))
    newest = f"{before} Its newest token: token 7 won the draw"
    assert ask_why(model, sequence("r0.0")).startswith(newest)
    now = model.fold.step
    model.fold.step += 1  # a step that has not sampled yet
    last = f" Its last token, of step {now}: token 7 won the draw"
    assert last in ask_why(model, sequence("r0.0"))
    model.fold.step = now
    model.apply(explained(model, position=1))  # an older token: no longer watched
    assert ask_why(model, sequence("r0.0")) == before


def test_only_the_newest_explanations_are_kept_and_a_keyframe_has_them(model) -> None:
    for number in range(KEPT + 9):
        model.explanations.keep(explained(model, "r0.0", position=number))
        name = f"other-{number}.0"
        model.explanations.keep(ev.TokenExplained(1, 1, 1.0, name, 5, 7, 0.0, 9, 1, DRAWN))
    assert len(model.explanations.by_name) == KEPT
    assert model.explanations.last.seq_id == f"other-{KEPT + 8}.0"
    restored = MODELS.restore(model.header, MODELS.pack(model), model)
    assert restored.explanations == model.explanations
