"""The flat batch on the screen is what the runner's `InputBatch` makes of the same plan."""

import pytest
from hypothesis import given
from support.engine.random_runs import OPTIONS, REQUESTS, RUNS, folded, run_of
from support.tui.shown import SCENARIOS, moments

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.events import types as ev
from minivllm.runtime.input_batch import InputBatch
from minivllm.runtime.step_result import StepResult
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import block
from minivllm.tui.widgets.steps.flat_batch import FlatBatch, input_tokens


class Watched:
    """A stage whose runner also keeps what a model would get in each step."""

    def __init__(self, stage) -> None:
        self.stage, self.steps = stage, {}
        header = stage.header
        self._batch = InputBatch(header.max_num_seqs, header.max_model_len, header.block_size)
        stage.engine.core.runner.execute_model = self._execute

    def _execute(self, plan, watch=None) -> StepResult:
        inputs = self._batch.prepare(plan)
        slots = inputs.attention.slot_mapping.tolist()
        slots = [None if slot == NOT_WRITTEN else slot for slot in slots]
        self.steps[self.stage.events[-1].step] = list(
            zip(inputs.positions.tolist(), inputs.token_ids.tolist(), slots, strict=True)
        )
        return StepResult(plan, None)


def check_all_steps(stage, steps: dict[int, list[tuple]]) -> None:
    """Before the tokens of a step, all rows are known; after it, those of unfinished sequences."""
    checked, is_planned = 0, False
    for (model, event), after in zip(moments(stage), [*stage.events[1:], None], strict=True):
        if isinstance(event, ev.StepBegin):
            is_planned = True
        planned = ev.StepScheduled | ev.BlockHashed | ev.DraftProposed | ev.BlockAllocated
        comes_next = is_planned and isinstance(event, planned)
        comes_next = comes_next and isinstance(after, ev.TokenSampled | ev.DraftVerified)
        if isinstance(event, ev.StepEnd) or comes_next:
            shown = list(input_tokens(model, 0, 10_000))
            assert [token.row for token in shown] == list(range(len(shown)))
            truth = steps[event.step]
            assert len(shown) == len(truth)
            for token, (position, token_id, slot) in zip(shown, truth, strict=True):
                is_gone = token.seq_id not in model.fold.sequences
                assert not (is_gone and comes_next)
                expected = (None, None) if is_gone else (token_id, slot)
                if token.is_right is False and token.slot is None:
                    expected = token_id, None  # the block of rejected drafts was given back
                assert (token.position, token.token_id, token.slot) == (position, *expected)
            checked, is_planned = checked + 1, False
    assert checked >= len(steps)


@RUNS
@given(REQUESTS, OPTIONS)
def test_the_tokens_and_slots_are_those_that_the_model_gets(stage, ask, requests, options) -> None:
    # No request runs yet: the stage has not taken a step.
    made = {}

    def watching(*arguments, **named):
        made["watched"] = Watched(stage(*arguments, **named))
        return made["watched"].stage

    run = run_of(watching, ask, requests, options)
    check_all_steps(run, made["watched"].steps)


@pytest.mark.parametrize("scenario", SCENARIOS, indirect=True)
def test_chunks_resumed_sequences_copies_and_hits_are_those_that_the_model_gets(scenario) -> None:
    watched = Watched(scenario)
    check_all_steps(scenario.run(60), watched.steps)


def test_a_row_has_the_token_s_word_and_a_click_on_its_slot_finds_the_block(shared_prefix) -> None:
    model, panel = folded(shared_prefix.run(1)), FlatBatch()
    tokens = list(input_tokens(model, 0, 10_000))
    assert len(tokens) > 40
    lines = panel.lines(model, 42, 80)
    assert len(lines) == len(tokens) + 1
    for line, token in zip(lines[1:], tokens, strict=True):
        row = text_of(line)
        word = model.fold.token_pieces[token.token_id].replace(" ", "·")
        assert row.split()[:2] == [str(token.row), model.letter(token.seq_id)]
        assert [str(token.position), str(token.token_id)] == row.split()[2:4]
        assert row.split()[4] == (word if len(word) < 14 else word[:12] + "…")
        assert line[-1][2] == block(token.slot // model.header.block_size)
