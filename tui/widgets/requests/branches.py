"""Branches: the answers of one request as a tree.

    prompt  ... about the sea.
    The sea is
    ├─ wide and
    │  ├─ blue                        a   -3.21
    │  └─ deep                        ×   -5.02 step 12
    └─ a large                        b   -4.10

What all answers have in common is drawn once. If the tree is too high, the beams dropped first are
left out.
"""

from typing import NamedTuple

from rich.cells import cell_len

from minivllm.text import clean, fit, plural, short_name, tail
from minivllm.tui.draw.lines import Line, Row, Span, first_that_fits, line, wrap_tail
from minivllm.tui.draw.selection import sequence
from minivllm.tui.state.branches import Tree
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.finished import REASONS
from minivllm.tui.widgets.requests.request_detail import shown_record

_STEM_ROWS = 3
_MARKS = {"pruned": (" × ", "bad*"), "complete": (" ✓ ", "good*")}


class DrawnNode(NamedTuple):
    text: str
    number: int | None
    """The branch that ends here; None if the text goes on in several ways."""
    below: list["DrawnNode"]
    lives: bool
    """Whether an unfinished or finished answer goes through this text."""


class Tip(NamedTuple):
    """One row of the tree."""

    spans: tuple[Span, ...]
    number: int | None
    """The branch that ends in this row."""


class BranchTree(Panel):
    HELP_TITLE = "Branches"
    HELP_TEXT = (
        "The answers of the selected request as a tree: what they have in common once, and where"
        " they part. In a beam search, each step keeps the beams with the best scores. A score is"
        " the log-probability of all the beam's tokens, so 0 would be certain. A dropped beam is"
        " red and struck out, with its last score and the step in which others were better; ✓ marks"
        " a beam whose text ended. The answers found are ranked by their log-probability divided by"
        " their tokens, or by tokens ** length_penalty, so a long answer can be before a likelier"
        " one. Samples (n above 1) have no scores: each of them draws its own tokens."
    )
    KEYS = ("engine.tokens",)

    def title(self, model: DashboardModel, width: int) -> str:
        tree = shown_tree(model, self.selection.seq_id)
        return "Branches" if tree is None else "Beams" if tree.is_search else "Samples"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        tree = shown_tree(model, self.selection.seq_id)
        if tree is None:
            hint = "This request has one answer: nothing branches."
            return [line(width, (hint, "faint"))]
        top = [_head(tree, width), *_found(tree, width)][: max(height - 3, 1)]
        return (top + Drawing(model, tree, width).lines(height - len(top)))[:height]


def shown_tree(model: DashboardModel, chosen: str | None) -> Tree | None:
    """The tree of the selected sequence's request, or else of the request that is shown."""
    if chosen is None:
        record = shown_record(model, None)
        chosen = "" if record is None else record.seq_id
    return model.branches.of(chosen)


def _request_of(tree: Tree) -> str:
    return next(iter(tree.branches.values())).seq_id.rpartition(".")[0]


def _head(tree: Tree, width: int) -> Line:
    name = (short_name(f"{_request_of(tree)}.0"), "text*")
    if not tree.is_search:
        number = len(tree.tips) + sum(branch.ended != "" for branch in tree.branches.values())
        words = f" {plural(number, 'sample')}"
        return first_that_fits(
            width,
            (name, (f"{words}: each draws its own tokens, so there are no scores", "muted")),
            (name, (words, "muted")),
        )
    state = (f" {plural(len(tree.tips), 'beam')}" if tree.tips else " search is over", "text")
    dropped = (f", {tree.num_dropped:,} dropped", "bad")
    spans = (name, state, dropped) if tree.num_dropped else (name, state)
    if tree.found:
        power = "" if tree.length_penalty == 1.0 else f" ** {tree.length_penalty:g}"
        ranking = f"log-probability / tokens{power}"
        return first_that_fits(
            width,
            (*spans, (f"; log-probabilities, ranked by {ranking}", "muted")),
            (*spans, (f"; ranked by {ranking}", "muted")),
            (name, (f" ranked by {ranking}", "muted")),
            spans,
        )
    return first_that_fits(
        width,
        (*spans, ("; the score is the log-probability of all tokens, 0 is best", "muted")),
        (*spans, ("; score: log-probability", "muted")),
        spans,
    )


def _found(tree: Tree, width: int) -> list[Line]:
    """The answers of a search that is over, best first."""
    rows = []
    for rank, (score, text) in enumerate(tree.found, start=1):
        row = Row(width).put(f"{rank}. {score:.2f} ", "good*")
        rows.append(row.put(tail(text.strip(), row.room), "text").line())
    return rows


def _both_ends(text: str, room: int) -> str:
    """The words after the fork, which tell branches apart, and the newest words."""
    if cell_len(text) <= room:
        return text
    begin = fit(text, (room + 1) // 2)
    rest = max(room - cell_len(begin), 0)
    end = text[len(text) - rest :]
    while cell_len(end) > rest:
        end = end[1:]
    return begin + end


class Drawing:
    """Draws one tree in a given width."""

    def __init__(self, model: DashboardModel, tree: Tree, width: int) -> None:
        self._model = model
        self._tree = tree
        self._width = width
        self._says_step = width >= 56
        notes = (20 if self._says_step else 10) if tree.is_search else 12
        self._room = max(width - notes, 1)
        """Cells for the tree, left of letters and scores."""
        scores = [tree.branches[at].score for at in tree.tips.values()]
        self._best = max((score for score in scores if score is not None), default=None)

    def lines(self, height: int) -> list[Line]:
        prompt = self._prompt() if height > 8 else []
        stem_rows = min(_STEM_ROWS, max(height // 6, 1))
        root, rows = self._fitting(max(height - len(prompt) - stem_rows, 1))
        stem = wrap_tail(clean(root.text).strip(), self._width, stem_rows)
        return [
            *prompt,
            *(Row(self._width).put(text, "text").line() for text in stem if text),
            *map(self._line, rows),
        ]

    def _prompt(self) -> list[Line]:
        request = self._model.fold.requests.get(_request_of(self._tree))
        if request is None or not request.prompt:
            return []
        row = Row(self._width).put("prompt  ", "accent*")
        return [row.put(tail(request.prompt.strip(), row.room), "muted").line()]

    def _fitting(self, height: int) -> tuple[DrawnNode, list[Tip]]:
        """The tree with as many ended beams as fit, and the rows below its stem.

        Complete beams come first, then those that were dropped last.
        """
        branches = self._tree.branches
        ended = [at for at, branch in branches.items() if branch.ended in ("complete", "pruned")]
        ended.sort(key=lambda at: (branches[at].ended, -branches[at].end_step))
        most = min(len(ended), max(height - len(self._tree.tips), 0))
        for number in range(most, -1, -1):
            root = self._root(ended[number:])
            rows = self._below(root, self._room)
            if len(rows) <= height:
                break
        return root, rows

    def _root(self, hidden: list[int]) -> DrawnNode:
        tree = self._tree
        children: dict[int | None, list[int]] = {}
        for at, branch in tree.branches.items():
            children.setdefault(branch.parent, []).append(at)

        def node(at: int) -> DrawnNode | None:
            """The branch and what continues it; joined with that if it goes on in one way only."""
            branch = tree.branches[at]
            if at not in children:
                gone = at in hidden
                return None if gone else DrawnNode(branch.text, at, [], branch.ended != "pruned")
            below = [child for child in map(node, children[at]) if child is not None]
            if len(below) < 2:
                return below[0]._replace(text=branch.text + below[0].text) if below else None
            for i, child in enumerate(below):
                if branch.text[-1:].isalnum() and child.text[:1].isalnum():
                    below[i] = child._replace(text=f"-{child.text}")  # the second part of a word
            return DrawnNode(branch.text, None, below, any(child.lives for child in below))

        root = node(children[None][0])
        return DrawnNode("", None, [], True) if root is None else root

    def _below(self, node: DrawnNode, room: int, guide: str = "") -> list[Tip]:
        """The rows of what continues a text."""
        if not node.below:
            return [] if guide else [Tip((), node.number)]
        rows = []
        for child in node.below:
            is_last = child is node.below[-1]
            text = _both_ends(clean(child.text).strip(), max(room - 3, 1))
            spans = (f"{guide}{'└─ ' if is_last else '├─ '}", "faint"), (text, self._style(child))
            rows.append(Tip(spans, child.number))
            rows += self._below(child, room - 3, guide + ("   " if is_last else "│  "))
        return rows

    def _style(self, node: DrawnNode) -> str:
        if not node.lives:
            return "bad~"
        if node.number is None:
            return "text"
        branch = self._tree.branches[node.number]
        if branch.ended == "over":
            return "muted"
        if branch.ended == "complete":
            return "good"
        hue = self._model.hue(self._model.letter(branch.seq_id))
        return f"{hue}*" if self._is_best(node.number) else hue

    def _is_best(self, number: int) -> bool:
        branch = self._tree.branches[number]
        return not branch.ended and branch.score is not None and branch.score == self._best

    def _line(self, tip: Tip) -> Line:
        row = Row(self._width).add(*tip.spans)
        if tip.number is None:
            return row.line()
        branch = self._tree.branches[tip.number]
        letter = self._model.letter(branch.seq_id) or " "
        row.put(" " * (self._room - self._width + row.room))
        if branch.ended in _MARKS:
            row.put(*_MARKS[branch.ended])
        else:
            target = sequence(branch.seq_id) if tip.number in self._tree.tips.values() else None
            row.put(f" {letter} ", f"{self._model.hue(letter)}*", target=target)
        if not self._tree.is_search:
            word, style = REASONS.get(branch.ended, ("", "muted"))
            return row.put(word, style).line()
        score = "" if branch.score is None else f"{branch.score:.2f}"
        style = {"pruned": "bad", "over": "muted", "complete": "good"}.get(branch.ended, "text")
        row.put(f"{score:>7}", "good*" if self._is_best(tip.number) else style)
        if self._says_step and branch.ended in _MARKS:
            row.put(f" step {branch.end_step:,}", style)
        elif self._says_step:
            words = {"over": " over"}.get(branch.ended, "")
            row.put(" best" if self._is_best(tip.number) else words, style)
        return row.line()
