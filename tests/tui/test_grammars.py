"""What the dashboard draws of a grammar is what its events say: allowed, forced, refused tokens."""

import pytest
from structured_output.conftest import house  # noqa: F401  (a fixture)
from support.engine.followed_run import FollowedRun
from support.engine.random_runs import context_with
from support.tui.shown import ask_why, moments, rows

from minivllm.events import types as ev
from minivllm.sampling_params import StructuredOutputsParams
from minivllm.text import visible
from minivllm.tui.draw.drafts import ACCEPTED, FORCED, FORCED_SIGN, REJECTED
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import sequence
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.choice.choice import Choice
from minivllm.tui.widgets.requests.request_detail import RequestDetail
from minivllm.tui.widgets.requests.slots import Slots
from minivllm.tui.widgets.steps.budget import Budget
from minivllm.tui.widgets.steps.step_history import StepHistory

NAME = {"type": "string", "pattern": "^[A-Z][a-z]{2,8}$"}
SCHEMA = {
    "type": "object", "properties": {"first_name": NAME, "home_city": NAME},
    "required": ["first_name", "home_city"], "additionalProperties": False,
}  # fmt: skip
FORM = StructuredOutputsParams(json=SCHEMA, disable_any_whitespace=True)


@pytest.fixture(scope="module")
def run(house) -> FollowedRun:  # noqa: F811
    """A request with a schema and one without, both watched; forced tokens are drafted."""
    drafts = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2}
    run = FollowedRun(
        house, explain_tokens=True, max_model_len=256, max_num_seqs=3, max_num_batched_tokens=64,
        speculative_config=drafts,
    )  # fmt: skip
    prompt = house.tokenizer.encode("Write a record for Hana, 27, from Tokyo.")
    form = {"ignore_eos": False, "structured_outputs": FORM, "max_tokens": 50, "seed": 1}
    run.add("form", prompt, form)
    run.add("free", prompt, {"max_tokens": 20, "seed": 1})
    return run.finish()


def piece(model: DashboardModel, token_id: int) -> str:
    return visible(model.fold.token_pieces[token_id])


def struck(line) -> str:
    return text_of(span for span in line if span[1] == REJECTED)


def test_slots_choice_and_w_show_the_state_of_the_grammar(run: FollowedRun) -> None:
    state, kinds = None, set()
    choice = Choice()
    choice.context = context_with(sequence("form.0"))
    for model, event in moments(run):
        if isinstance(event, ev.GrammarState):
            state = event
        if not isinstance(event, ev.TokenExplained) or event.seq_id != "form.0":
            continue
        words = f"{state.num_allowed:,} allowed" + ", forced" * state.forced
        slot = Slots().lines(model, 160, 2 * model.max_num_seqs)
        under = slot[2 * model.fold.sequences["form.0"].slot + 1]
        assert text_of(under).strip().startswith(words)
        lines = choice.lines(model, 160, 40)
        grammar = next(line for line in lines if text_of(line).startswith("grammar: "))
        assert text_of(grammar).split(";")[0] == f"grammar: {words}"
        refused = f"[{piece(model, state.refused_token_id)}]"
        assert struck(grammar) == refused
        assert text_of(grammar).strip().endswith(f"{state.refused_probability:.1%}")
        favourite = max(event.candidates, key=lambda candidate: candidate.logit)
        is_refused = favourite.token_id == state.refused_token_id
        assert struck(under) == (refused if is_refused else "")
        if event.token_id is not None:
            said = ask_why(model, sequence("form.0"))
            assert ("is forced" in said) == state.forced
            assert ("which the grammar refuses" in said) == is_refused
        kinds.add((state.forced, is_refused))
    assert kinds >= {(True, True), (False, True), (False, False)}


def test_jumped_tokens_are_marked_as_forced_and_drafts_of_the_text_are_not(run) -> None:
    styles, panel, forced_words = set(), RequestDetail(), ""
    panel.context = context_with(sequence("form.0"))
    sources = {}
    for model, event in moments(run):
        if isinstance(event, ev.DraftProposed):
            sources[event.step, event.seq_id] = event
        if not isinstance(event, ev.StepEnd):
            continue
        drafted = [draft for (step, _), draft in sources.items() if step == event.step]
        forced = sum(len(draft.token_ids) for draft in drafted if draft.source == "grammar")
        assert rows(Budget(), model, 64, 3)[0].count(FORCED_SIGN) == forced
        assert rows(StepHistory(), model, 120, 9)[-1].count(FORCED_SIGN) >= bool(forced)
        for draft in drafted:
            if draft.seq_id not in model.fold.running:
                continue
            slot = model.fold.sequences[draft.seq_id].slot
            line = Slots().lines(model, 160, 2 * model.max_num_seqs)[2 * slot + 1]
            marks = {span[1] for span in line} & {ACCEPTED, FORCED}
            assert marks <= ({FORCED} if draft.source == "grammar" else {ACCEPTED})
            styles |= marks
            if draft.source == "grammar":
                text = "".join(model.fold.token_pieces[token_id] for token_id in draft.token_ids)
                forced_words += text.replace(" ", "")
                lines = panel.lines(model, 90, 30)
                shown = [span[0] for line in lines for span in line if span[1].startswith(FORCED)]
                assert "".join(shown).replace(" ", "") == forced_words
                said = ask_why(model, sequence(draft.seq_id))
                assert "as the grammar allows nothing else" in said
    assert FORCED in styles and 'name"' in forced_words
