"""Drafts on the screen are those of the events: words, slots of blocks, shares of the budget."""

import re
from types import SimpleNamespace

from support.engine.random_runs import context_with
from support.tui.shown import ask_why, missing_from, rows

from minivllm.events import types as ev
from minivllm.tui.draw.drafts import ACCEPTED, PENDING, REJECTED
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import block, sequence, step
from minivllm.tui.state.drafts import DRAFTS_KEPT
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.inspector import Inspector
from minivllm.tui.widgets.requests.request_detail import RequestDetail
from minivllm.tui.widgets.requests.slots import Slots
from minivllm.tui.widgets.steps.budget import Budget
from minivllm.tui.widgets.steps.step_detail import StepDetail
from minivllm.tui.widgets.steps.step_history import StepHistory


def moments(stage):
    """(model, event, drafts of this step by sequence) after each event."""
    model, drafted = DashboardModel(stage.header), {}
    for event in stage.run().events:
        if isinstance(event, ev.StepBegin):
            drafted = {}
        elif isinstance(event, ev.DraftProposed):
            drafted[event.seq_id] = SimpleNamespace(
                seq_id=event.seq_id, token_ids=event.token_ids, num_accepted=None,
                position=model.fold.sequences[event.seq_id].num_tokens,
            )  # fmt: skip
        elif isinstance(event, ev.DraftVerified):
            drafted[event.seq_id].num_accepted = event.num_accepted
        model.apply(event)
        yield model, event, drafted


def words(model: DashboardModel, token_ids: list[int]) -> str:
    return "".join(model.fold.token_pieces[token_id] for token_id in token_ids)


def marked(line, style: str) -> str:
    """The words of a line with this style, without their brackets."""
    found = text_of(span for span in line if span[1] == style)
    return found.replace("[", "").replace("]", "").replace(" ", "")


def test_the_marks_on_a_slot_are_the_drafts_of_the_step(drafts) -> None:
    kinds = set()
    for model, _, drafted in moments(drafts):
        lines = Slots().lines(model, 160, 2 * model.max_num_seqs)
        for seq_id in model.fold.running:
            line = lines[2 * model.fold.sequences[seq_id].slot + 1]
            pending = right = wrong = ""
            if draft := drafted.get(seq_id):
                accepted = draft.num_accepted or 0
                pending = words(model, draft.token_ids) if draft.num_accepted is None else ""
                right = words(model, draft.token_ids[:accepted])
                wrong = "" if pending else words(model, draft.token_ids[accepted:])
            shown = [marked(line, style) for style in (PENDING, ACCEPTED, REJECTED)]
            assert shown == [part.replace(" ", "") for part in (pending, right, wrong)]
            text = text_of(line).strip()
            assert text.count("[") == text.count("]") == bool(pending or wrong)
            kinds |= {name for name, said in zip("prw", shown, strict=True) if said}
    assert kinds == {"p", "r", "w"}


def test_the_last_block_fills_with_drafts_and_loses_the_wrong_ones(drafts) -> None:
    seen, size = set(), drafts.header.block_size
    for model, event, drafted in moments(drafts):
        if not isinstance(event, ev.DraftVerified | ev.StepEnd | ev.DraftProposed):
            continue
        for draft in drafted.values():
            state = model.fold.sequences.get(draft.seq_id)
            for entry, block_id in enumerate(state.block_table if state else ()):
                known = max(min(state.num_tokens, state.num_computed_tokens, (entry + 1) * size), 0)
                inside = [
                    (token_id, None if draft.num_accepted is None else at < draft.num_accepted)
                    for at, token_id in enumerate(draft.token_ids)
                    if max(known, entry * size) <= draft.position + at < (entry + 1) * size
                ]
                panel = Inspector()
                panel.context = context_with(block(block_id))
                lines = panel.lines(model, 200, 40)
                spans = [span for at in lines if text_of(at).startswith("drafts") for span in at]
                drawn = [words(model, [token_id]).replace(" ", "·") for token_id, _ in inside]
                assert [text for text, style, *_ in spans if "=" in style] == [
                    word if is_right else f"[{word}]"
                    for word, (_, is_right) in zip(drawn, inside, strict=True)
                ]
                seen |= {is_right for _, is_right in inside}
    assert {None, False} <= seen


def test_the_budget_has_a_part_for_drafts(drafts) -> None:
    checked = 0
    for model, event, drafted in moments(drafts):
        if not isinstance(event, ev.StepEnd) or not drafted:
            continue
        total = sum(len(draft.token_ids) for draft in drafted.values())
        right = sum(draft.num_accepted for draft in drafted.values())
        bar, sums = rows(Budget(), model, 64, 3)[:2]
        assert bar.count("?") == total and missing_from(sums, f"drafts {total}") == []
        parts = re.findall(r"(?:decode|drafts|prefill|unused) (\d+)", sums)
        assert sum(map(int, parts)) == model.fold.budget
        assert bar.strip("·")[-1] == "?", "drafts are planned last"
        record = model.steps.records[-1]
        assert record.used == event.used
        assert f"{right}/{total}" in rows(StepHistory(), model, 120, 9)[-1]
        detail = " ".join(rows(StepDetail(), model, 120, 9))
        for said in (detail, ask_why(model, step(event.step))):
            assert f"{total} draft" in said and f"of which {right} were right" in said
        checked += 1
    assert checked > 5


def test_the_detail_marks_the_drafts_of_earlier_steps_and_counts_them(drafts) -> None:
    totals: dict[str, list[int]] = {}
    panel, right = RequestDetail(), ""
    for model, event, drafted in moments(drafts):
        if not isinstance(event, ev.StepEnd):
            continue
        for draft in drafted.values():
            total = totals.setdefault(draft.seq_id, [0, 0])
            total[0] += draft.num_accepted
            total[1] += len(draft.token_ids)
        if totals.get("r0.0") and "r0.0" in model.fold.running:
            panel.context = context_with(sequence("r0.0"))
            if draft := drafted.get("r0.0"):
                right += words(model, draft.token_ids[: draft.num_accepted])
            lines = panel.lines(model, 90, 30)
            assert "{} of {} drafts right".format(*totals["r0.0"]) in " ".join(map(text_of, lines))
            assert "".join(marked(line, ACCEPTED) for line in lines) == right.replace(" ", "")
    assert totals["r0.0"][0] > 8 and len(model.drafts.by_seq["r0.0"].recent) <= DRAFTS_KEPT
