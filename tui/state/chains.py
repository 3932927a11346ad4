"""The prefix cache as a tree of chains: which block follows which, and where chains branch.

A cached block carries two hashes: its own, and that of the block before it (its parent). Once per
frame, `PrefixIndex` turns these hashes into a tree. `nodes` joins blocks into a `Node`: a piece of
a chain that has no branch and whose blocks all have the same holders.

    you are a helpful ─┬─ poet. Write     block 4 has two children: the chain branches
                       └─ cook. Bake

Several blocks can have the same content (if two prompts computed it in the same step), so each
place in a chain has a list of blocks. And a parent can be evicted before its child. Then lookups
never find the rest of the chain, because they start at the prompt's first block.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from minivllm.events.fold import Fold
from minivllm.events.state import BlockState
from minivllm.tui.state.model import DashboardModel


def shared_blocks(blocks: Sequence[BlockState]) -> list[int]:
    """The blocks that several sequences hold."""
    return [block_id for block_id, block in enumerate(blocks) if block.ref_cnt > 1]


class Node(NamedTuple):
    """A piece of a chain: blocks in a row that have the same holders and no branch between them."""

    copies: list[tuple[int, ...]]
    """copies[0]: the node's blocks in order; copies[1], ...: duplicates, block for block."""
    holders: list[tuple[str, ...]]
    """For each copy, the sequences that hold it."""
    guide: str
    """Tree lines drawn before the node."""
    under: str
    """Tree lines drawn before the node's children."""
    orphaned: bool
    """Whether the parent of the node's first block was evicted."""

    @property
    def first(self) -> int:
        return self.copies[0][0]

    def __contains__(self, block_id: object) -> bool:
        return any(block_id in blocks for blocks in self.copies)


class PrefixIndex:
    """The panels of a screen share one index."""

    def __init__(self) -> None:
        self._fold: Fold | None = None
        self._seq = -1
        self.carriers: dict[str, list[int]] = {}
        """hash -> the blocks with this content, lowest id first"""
        self.children: dict[str | None, list[str]] = {}
        """hash -> its child hashes; None -> the hashes that start a prompt"""
        self.holders: dict[int, tuple[str, ...]] = {}
        """block -> the sequences that hold it"""
        self.roots: list[str] = []
        """The first hash of each chain; chains with a holder come first."""

    def of(self, model: DashboardModel) -> "PrefixIndex":
        """Bring the index up to date with the model, and return it."""
        fold = model.fold
        # Compare the folds, not their id(): a new fold can get the id of a deleted fold.
        if fold.last_seq != self._seq or fold is not self._fold:
            self._fold, self._seq = fold, fold.last_seq
            self._read_names()
            self._find_holders()
            self._find_roots()
        return self

    def _read_names(self) -> None:
        self.carriers, self.children = {}, {}
        for at, name in enumerate(map(attrgetter("hash"), self._fold.blocks)):
            if name is not None:
                self.carriers.setdefault(name, []).append(at)
        # Each hash gets one parent, from its first block, so no hash is drawn twice even if the
        # recording is damaged.
        for name, blocks in self.carriers.items():
            self.children.setdefault(self._fold.blocks[blocks[0]].parent, []).append(name)

    def _find_holders(self) -> None:
        """Map each block to its holders. All blocks held by one sequence alone share one tuple."""
        shared = set(shared_blocks(self._fold.blocks))
        self.holders = holders = {}
        for seq_id, sequence in self._fold.sequences.items():
            known = {
                block_id: holders[block_id]
                for block_id in shared.intersection(sequence.block_table)
                if block_id in holders
            }
            holders.update(dict.fromkeys(sequence.block_table, (seq_id,)))
            for block_id, others in known.items():
                holders[block_id] = (*others, seq_id)

    def _find_roots(self) -> None:
        carriers, holders = self.carriers, self.holders
        roots = [
            name for parent in self.children.keys() - carriers for name in self.children[parent]
        ]
        roots.sort(key=lambda name: carriers[name][0])
        held = {name for name in roots if any(block in holders for block in carriers[name])}
        self.roots = sorted(roots, key=lambda name: name not in held)

    # ---- one block ----

    def entry(self, block_id: int) -> int | None:
        """A block's index in its block table; None if it is not cached, or its chain's beginning
        was evicted.
        """
        line = self._line_of(block_id)
        is_whole = line and self._fold.blocks[self.carriers[line[-1]][0]].parent is None
        return len(line) - 1 if is_whole else None

    def root(self, block_id: int) -> str | None:
        line = self._line_of(block_id)
        return line[-1] if line else None

    def _line_of(self, block_id: int) -> list[str]:
        """The hashes from a block back to the start of its chain."""
        name, line = self._fold.blocks[block_id].hash, []
        # Limit the length: in a damaged recording, the parents can form a ring.
        while name in self.carriers and len(line) < len(self.carriers):
            line.append(name)
            name = self._fold.blocks[self.carriers[name][0]].parent
        return line

    # ---- the tree ----

    def nodes(self, roots: list[str]) -> Iterator[Node]:
        """Yield the nodes of the trees under `roots`, top to bottom, computed lazily."""
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
                guides = ("└─", "  ") if is_last else ("├─", "│ ")
                stack.append((child, under + guides[0], under + guides[1]))

    def has_children(self, node: Node) -> bool:
        return bool(self.children.get(self._fold.blocks[node.copies[0][-1]].hash))

    def _holders_of(self, name: str) -> list[tuple[str, ...]]:
        return [self.holders.get(block_id, ()) for block_id in self.carriers[name]]
