"""The tree of a request's answers: its words and scores are those of the events."""

import re

from support.engine.random_runs import context_with, folded
from support.tui.driven_app import app_for, drawn, drive, panel, redraw, show_screen, until, visible
from support.tui.shown import ends_of_steps, missing_from, moments, rows

from minivllm.events import types as ev
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import sequence
from minivllm.tui.state.branches import ENDED_KEPT, Tree
from minivllm.tui.widgets.requests.branches import BranchTree


class Answers:
    """A plain reading of the events: text and last score of each answer of one request."""

    def __init__(self, request_id: str) -> None:
        self.live: dict[str, tuple[str, float | None]] = {f"{request_id}.0": ("", None)}
        self.dropped: list[tuple[str, float, int]] = []
        """(text, score, step) of each beam for which others were better."""

    def apply(self, event: ev.Event) -> None:
        match event:
            case ev.RequestForked() if event.parent in self.live:
                self.live[event.seq_id] = self.live[event.parent]
            case ev.TokenSampled() if event.seq_id in self.live:
                self.live[event.seq_id] = (self.live[event.seq_id][0] + event.text, event.logprob)
            case ev.BeamPruned() | ev.RequestFinished() if event.seq_id in self.live:
                text, score = self.live.pop(event.seq_id)
                if isinstance(event, ev.BeamPruned) and event.stop_reason is None:
                    self.dropped.append((text, score, event.step))


def text_to(tree: Tree, number: int | None) -> str:
    """The whole text of an answer that ends in this branch."""
    if number is None:
        return ""
    return text_to(tree, tree.branches[number].parent) + tree.branches[number].text


def test_the_tree_has_each_beam_s_words_and_score_and_those_of_the_last_dropped(beams) -> None:
    truth, panel, num_crossed_out = Answers("r0"), BranchTree(), 0
    panel.context = context_with(sequence("r0.0"))
    for model, event in moments(beams.run()):
        truth.apply(event)
        if not isinstance(event, ev.StepEnd) or len(truth.live) < 2:
            continue
        tree = model.branches.of("r0.0")
        live = {seq_id: text_to(tree, at) for seq_id, at in tree.tips.items()}
        assert live == {seq_id: text for seq_id, (text, _) in truth.live.items()}
        dropped = [(at, branch) for at, branch in tree.branches.items() if branch.ended == "pruned"]
        for at, branch in dropped:
            assert (text_to(tree, at), branch.score, branch.end_step) in truth.dropped
        lines = panel.lines(model, 120, 60)
        shown = [text_of(line) for line in lines]
        assert f"r0 {len(live)} beams" in shown[0]
        assert missing_from(shown[0], *([f"{len(truth.dropped)} dropped"] if dropped else [])) == []
        for seq_id, (text, score) in truth.live.items():
            word, letter = re.escape(text.split()[-1]), re.escape(model.letter(seq_id))
            notes = re.compile(rf"{word} +{letter} +{score:.2f}")
            assert len(list(filter(notes.search, shown))) == 1
        for _, branch in dropped:
            note = f"× {branch.score:7.2f} step {branch.end_step}"
            assert any(row.rstrip().endswith(note) for row in shown)
        crossed_out = [line for line in lines if any(span[1] == "bad~" for span in line)]
        assert sum("×" in row for row in shown) == len(dropped) <= len(crossed_out)
        num_crossed_out += len(crossed_out)
    assert num_crossed_out > 50


def test_a_long_search_keeps_few_ended_beams_and_counts_all(stage, ask) -> None:
    run = stage([ask("r0", "a b", "c d e f g h i j k", beams=4, max_tokens=60)], num_blocks=80)
    model = folded(run.run())
    tree = model.branches.of("r0.0")
    pruned = [event for event in run.events if isinstance(event, ev.BeamPruned)]
    (found,) = [event for event in run.events if isinstance(event, ev.BeamsFound)]
    worse = [event for event in pruned if event.stop_reason is None and event.seq < found.seq]
    assert tree.num_dropped == len(worse)
    kept = [branch for branch in tree.branches.values() if branch.ended not in ("", "length")]
    assert tree.num_dropped > ENDED_KEPT == len(kept)
    for at, branch in tree.branches.items():
        children = [other for other in tree.branches.values() if other.parent == at]
        assert len(children) != 1 and (branch.parent in tree.branches or branch.parent is None)
    shown = rows(BranchTree(), model, 120, 40)
    assert "search is over" in shown[0]
    for rank, (logprob, text) in enumerate(zip(found.logprobs, found.texts, strict=True), start=1):
        assert shown[rank].startswith(f"{rank}. {logprob:.2f} ") and shown[rank][-9:] in text


def test_the_requests_screen_shows_the_tree_of_its_moment_while_the_request_has_one(beams) -> None:
    app = app_for(beams.run(30))

    async def check(pilot) -> None:
        await show_screen(pilot, "requests")
        await until(pilot, lambda: "Beams" in str(panel(app, "branches").border_title))
        for step in (25, 7, 18):
            app.context.transport.to_step(step)
            await redraw(pilot)
            model = next(model for model in ends_of_steps(beams) if model.fold.step == step)
            size = panel(app, "branches").content_size
            expected = rows(BranchTree(), model, size.width, size.height)
            assert [row.rstrip() for row in drawn(app, "branches") if row.strip()] == expected
        app.context.selection.choose(sequence("r1.0"))
        await redraw(pilot)
        assert "branches" not in [panel.id for panel in visible(app)]

    drive(app, check)


def test_the_best_beam_is_marked_and_no_dropped_beam_had_a_better_score(beams) -> None:
    model = folded(beams.run(20))
    tree = model.branches.of("r0.0")
    best = max(tree.branches[at].score for at in tree.tips.values())
    marked = [row for row in rows(BranchTree(), model, 120, 30)[1:] if row.endswith("best")]
    assert marked and all(row.endswith(f" {best:.2f} best") for row in marked)
    worst = min(tree.branches[at].score for at in tree.tips.values())
    last = [branch for branch in tree.branches.values() if branch.end_step == 20]
    assert all(branch.score >= worst for branch in last) or not last
