"""The prefix cache as chains: which block follows which, and where chains part.

A cached block carries the hash of its content and of its parent, the block before it. `PrefixIndex`
turns that into a tree, once for each moment that is drawn, and `nodes` puts together what stands in
a row: a `Node` is a piece of a chain without a branch whose blocks are all held by the same
sequences. Knows the fold and nothing of drawing.

Two things are easy to get wrong. The same content can lie in several blocks (two prompts computed
it in the same step), so a place in a chain has a list of blocks; and a block's parent can be
evicted before it, so a chain can begin in the middle: no lookup finds it there, because every
lookup starts at a prompt's beginning.
"""

from bisect import insort
from collections.abc import Iterator
from typing import NamedTuple

from minivllm.events.fold import Fold
from minivllm.tui.state.model import DashboardModel


class Node(NamedTuple):
    """A piece of a chain in which nothing changes."""

    copies: list[tuple[int, ...]]
    """The blocks in order; the second and later ones hold the same content once more."""
    holders: list[tuple[str, ...]]
    """Of each copy, who holds it."""
    guide: str
    """Tree signs before it."""
    under: str
    """Tree signs before what hangs from it."""
    orphaned: bool
    """The block before its first one was evicted."""

    @property
    def first(self) -> int:
        return self.copies[0][0]

    def __contains__(self, block_id: object) -> bool:
        return any(block_id in blocks for blocks in self.copies)


class PrefixIndex:
    """Finds blocks by hash, and hashes by parent. Panels of one screen share one."""

    def __init__(self) -> None:
        self._fold: Fold | None = None
        self._seq = -1
        self.carriers: dict[str, list[int]] = {}
        """hash -> the blocks with this content, lowest id first"""
        self.children: dict[str | None, list[str]] = {}
        """hash -> the hashes that follow it; under None those that begin a prompt"""
        self.holders: dict[int, tuple[str, ...]] = {}
        """block -> who holds it"""
        self.roots: list[str] = []
        """Where chains begin; first those that somebody holds."""
        self._names: list[str | None] = []
        """The hash of each block, when it was looked at last."""
        self._parents: dict[str, str | None] = {}
        """hash -> the hash before it"""

    def of(self, model: DashboardModel) -> "PrefixIndex":
        """The index, brought up to the moment that `model` stands at."""
        fold = model.fold
        # The fold itself and not its id: a new one may get the id of one that is gone.
        if fold is not self._fold or len(fold.blocks) != len(self._names):
            self.carriers, self.children, self._parents = {}, {}, {}
            self._names = [None] * len(fold.blocks)
            self._seq = -1
        if fold.last_seq != self._seq or fold is not self._fold:
            self._fold, self._seq = fold, fold.last_seq
            self._follow_names()
            self._find_holders()
            self._find_roots()
        return self

    def _follow_names(self) -> None:
        """Take in the blocks whose content has got or lost its hash: a few at each frame, of
        thousands.
        """
        names = [block.hash for block in self._fold.blocks]
        changed = [
            at for at, (name, old) in enumerate(zip(names, self._names, strict=True)) if name != old
        ]
        affected = {
            name for at in changed for name in (names[at], self._names[at]) if name is not None
        }
        for name in affected & self.carriers.keys():
            siblings = self.children[self._parents[name]]
            siblings.remove(name)
            if not siblings:
                del self.children[self._parents[name]]
        for at in changed:
            if self._names[at] is not None:
                self.carriers[self._names[at]].remove(at)
            if names[at] is not None:
                insort(self.carriers.setdefault(names[at], []), at)
        self._names = names
        for name in affected:
            if self.carriers[name]:
                # A hash has one parent, that of its first block: so this is a forest, whatever a
                # log says.
                parent = self._parents[name] = self._fold.blocks[self.carriers[name][0]].parent
                insort(self.children.setdefault(parent, []), name, key=self._first_block)
            else:
                del self.carriers[name], self._parents[name]

    def _first_block(self, name: str) -> int:
        return self.carriers[name][0]

    def _find_holders(self) -> None:
        """Most blocks have one holder, and all those of one sequence share that entry."""
        shared = {block_id for block_id, block in enumerate(self._fold.blocks) if block.ref_cnt > 1}
        self.holders = holders = {}
        for seq_id, sequence in self._fold.sequences.items():
            known = {
                block_id: holders[block_id]
                for block_id in shared.intersection(sequence.block_table) & holders.keys()
            }
            holders.update(dict.fromkeys(sequence.block_table, (seq_id,)))
            for block_id, others in known.items():
                holders[block_id] = (*others, seq_id)

    def _find_roots(self) -> None:
        carriers, holders = self.carriers, self.holders
        roots = [
            name
            for parent, names in self.children.items()
            if parent not in carriers
            for name in names
        ]
        roots.sort(key=self._first_block)
        held = [any(block_id in holders for block_id in carriers[name]) for name in roots]
        self.roots = [name for name, is_held in zip(roots, held, strict=True) if is_held]
        self.roots += [name for name, is_held in zip(roots, held, strict=True) if not is_held]

    # ---- one block ----

    def entry(self, block_id: int) -> int | None:
        """The entry of a block table that this cached block is for; None if its chain has lost its
        beginning.
        """
        line = self._line_of(block_id)
        return (
            len(line) - 1
            if line and self._fold.blocks[self.carriers[line[-1]][0]].parent is None
            else None
        )

    def root(self, block_id: int) -> str | None:
        """The hash that this block's chain begins with."""
        line = self._line_of(block_id)
        return line[-1] if line else None

    def _line_of(self, block_id: int) -> list[str]:
        """The hashes from a block up to the beginning of its chain."""
        name, line = self._fold.blocks[block_id].hash, []
        # No chain is longer than this: a damaged log may hold a ring.
        while name in self.carriers and len(line) < len(self.carriers):
            line.append(name)
            name = self._fold.blocks[self.carriers[name][0]].parent
        return line

    # ---- the tree ----

    def nodes(self, roots: list[str]) -> Iterator[Node]:
        """The trees that grow from `roots`, top to bottom, worked out one node at a time."""
        stack = [(name, "", "") for name in reversed(roots)]
        while stack:
            name, guide, under = stack.pop()
            pieces, holders = [self.carriers[name]], self._holders_of(name)
            children = self.children.get(name, ())
            while len(children) == 1 and self._holders_of(children[0]) == holders:
                pieces.append(self.carriers[children[0]])
                children = self.children.get(children[0], ())
            parent = self._fold.blocks[self.carriers[name][0]].parent
            orphaned = parent is not None and parent not in self.carriers
            yield Node(list(zip(*pieces, strict=True)), holders, guide, under, orphaned)
            for child in reversed(children):
                is_last = child is children[-1]
                stack.append(
                    (
                        child,
                        under + ("└─" if is_last else "├─"),
                        under + ("  " if is_last else "│ "),
                    )
                )

    def _holders_of(self, name: str) -> list[tuple[str, ...]]:
        return [self.holders.get(block_id, ()) for block_id in self.carriers[name]]
