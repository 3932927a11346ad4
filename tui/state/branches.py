"""The answers of a request as a tree: what they have in common, where they part, which are dropped.

    The sea is ─┬─ wide and ─┬─ blue        a tip that lives: beam a, score -3.21
                │            └─ deep        dropped in step 12 with score -5.02
                └─ a large                  a tip that lives: beam b, score -4.10

A sequence that forks begins two branches, one for itself and one for the fork. Scores are those of
`token.sampled` in a beam search: the log-probability of all the beam's tokens so far.
"""

from itertools import takewhile

import msgspec

from minivllm.events import types as ev
from minivllm.events.fold import Fold

TREES_KEPT = 8
ENDED_KEPT = 24
"""How many ended beams of a search stay in its tree: every keyframe contains them all."""

Ended = ev.RequestFinished | ev.RequestAborted | ev.BeamPruned


class Branch(msgspec.Struct):
    """The text between two forks, or between a fork and the end."""

    parent: int | None
    """Number of the branch that this one continues; None for the text that all have in common."""
    seq_id: str
    """The sequence that wrote the end of the text."""
    text: str = ""
    score: float | None = None
    """Score of a beam with this text; None for samples, and if no token has been seen yet."""
    ended: str = ""
    """How the sequence ended here: the reason in `request.finished`, or `abort`; in a search also
    `pruned` (others were better), `complete` (its text is one of the best) or `over` (with the
    search)."""
    end_step: int = 0


class Tree(msgspec.Struct):
    """All answers of one request."""

    is_search: bool
    """Whether the answers are beams, which have scores, and not samples."""
    length_penalty: float = 1.0
    """A search ranks complete answers by log-probability / tokens ** length_penalty."""
    branches: dict[int, Branch] = {}
    """Number -> branch, oldest first; the first one has no parent."""
    tips: dict[str, int] = {}
    """Unfinished sequence -> its branch."""
    num_dropped: int = 0
    """Beams dropped so far, including those that are no longer in `branches`."""
    num_made: int = 0
    found: list[tuple[float, str]] = []
    """(log-probability, text) of each answer that the search found, best first."""

    def add(self, parent: int | None, seq_id: str, text: str, score: float | None = None) -> int:
        self.num_made += 1
        self.branches[self.num_made] = Branch(parent, seq_id, text, score)
        return self.num_made

    def children(self, number: int | None) -> list[int]:
        return [at for at, branch in self.branches.items() if branch.parent == number]

    def fork(self, parent: str, child: str) -> None:
        at = self.tips[parent]
        tip = self.branches[at]
        # Forked again before its next token: all forks part at the same place.
        if tip.text or tip.parent is None:
            self.tips[parent] = self.add(at, parent, "", tip.score)
        else:
            at = tip.parent
        self.tips[child] = self.add(at, child, "", tip.score)

    def end(self, event: Ended) -> None:
        tip = self.branches[self.tips.pop(event.seq_id)]
        tip.end_step, tip.ended = event.step, "abort"
        if isinstance(event, ev.RequestFinished):
            tip.ended = event.reason
        elif isinstance(event, ev.BeamPruned):
            tip.ended, self.is_search = "over" if self.found else "pruned", True
            if event.stop_reason is not None:
                tip.ended = "complete"
            self.num_dropped += tip.ended == "pruned"
            gone = [at for at, branch in self.branches.items() if branch.ended]
            if len(gone) > ENDED_KEPT:
                self.cut(min(gone, key=lambda at: self.branches[at].end_step))

    def cut(self, number: int) -> None:
        """Remove a branch at whose end no text goes on, and join what no longer parts."""
        parent = self.branches.pop(number).parent
        if parent is None:
            return
        match self.children(parent):
            case []:
                self.cut(parent)
            case [only]:
                child, above = self.branches[only], self.branches.pop(parent)
                child.parent, child.text = above.parent, above.text + child.text


class Branches(msgspec.Struct):
    """The trees of the last requests that have forked."""

    trees: dict[str, Tree] = {}
    """Request id -> tree, oldest first."""

    def of(self, seq_id: str) -> Tree | None:
        return self.trees.get(seq_id.rpartition(".")[0]) if self.trees else None

    def forget(self, event: ev.RequestArrived) -> None:
        self.trees.pop(event.request_id, None)

    def fork(self, fold: Fold, event: ev.RequestForked) -> None:
        tree = self.of(event.parent)
        if tree is None:
            tree = self._begin(fold, fold.sequences[event.parent].request_id)
        tree.fork(event.parent, event.seq_id)

    def _begin(self, fold: Fold, request_id: str) -> Tree:
        """Begin a tree before a fork; in the middle of a run, there can be several answers."""
        if len(self.trees) == TREES_KEPT:
            ended = (name for name, tree in self.trees.items() if not tree.tips)
            del self.trees[next(ended, next(iter(self.trees)))]
        request = fold.requests[request_id]
        sampling = request.sampling
        tree = Tree(sampling.use_beam_search, sampling.length_penalty) if sampling else Tree(False)
        self.trees[request_id] = tree
        texts = {seq_id: fold.sequences[seq_id].text for seq_id in request.seq_ids}
        pairs = zip(min(texts.values()), max(texts.values()), strict=False)
        stem = "".join(char for char, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        root = tree.add(None, request.seq_ids[0], stem)
        for seq_id, text in texts.items():
            is_only = len(texts) == 1
            tree.tips[seq_id] = root if is_only else tree.add(root, seq_id, text[len(stem) :])
        return tree

    def extend(self, event: ev.TokenSampled | ev.TextFlushed) -> None:
        tree = self.of(event.seq_id)
        if tree is None or event.seq_id not in tree.tips:
            return
        tip = tree.branches[tree.tips[event.seq_id]]
        tip.text += event.text
        if isinstance(event, ev.TokenSampled) and tree.is_search:
            tip.score = event.logprob

    def find(self, event: ev.BeamsFound) -> None:
        tree = self.of(event.seq_id)
        if tree is not None:
            tree.found = list(zip(event.logprobs, event.texts, strict=True))

    def end(self, event: Ended) -> None:
        tree = self.of(event.seq_id)
        if tree is not None and event.seq_id in tree.tips:
            tree.end(event)
