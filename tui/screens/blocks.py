"""The Blocks screen: memory, block by block.

Left: the map, the second memory (if there is one), the text of blocks (if there is room) and the
free queue. Right: the selected
block, the prefix cache, attention mass and the kernel x-ray. If the panels in `_folding` do not
all fit, one is open, and the others show only their titles until they get the focus.
"""

from collections.abc import Iterable

from textual.containers import Horizontal, Vertical
from textual.events import DescendantFocus, Resize
from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.state.chains import PrefixIndex
from minivllm.tui.widgets.blocks.blockmap import BlockMap
from minivllm.tui.widgets.blocks.cards import BlockCards
from minivllm.tui.widgets.blocks.freequeue import FreeQueue
from minivllm.tui.widgets.blocks.hostmap import HostMap
from minivllm.tui.widgets.blocks.inspector import Inspector
from minivllm.tui.widgets.blocks.mass import Mass
from minivllm.tui.widgets.blocks.prefix_tree import PrefixTree
from minivllm.tui.widgets.blocks.xray import XRay
from minivllm.tui.widgets.frame.keybar import ROWS_FOR_TABS
from minivllm.tui.widgets.frame.panel import Panel

_FEW_BLOCKS = 128
"""Up to this many blocks, the map stays legible above cards; half as many on a low terminal."""
_BROAD = 160
"""Columns from which the panels at the right need less than two fifths of them."""


class BlocksScreen(DashboardScreen):
    NAME, KIND = "blocks", "block"

    _had_mass = False
    _trace_seq: int | None = None

    def body(self) -> Iterable[Widget]:
        index = PrefixIndex()
        with Horizontal(id="body"):
            with Vertical(id="blocks-left"):
                yield BlockMap(shows_words=False, id="blocks-map")
                if self.has_two_memories:
                    yield HostMap(id="blocks-host")
                yield BlockCards(index, id="blocks-cards")
                yield FreeQueue(id="blocks-queue")
            with Vertical(id="blocks-right"):
                yield Inspector(index, id="blocks-inspector")
                self._folding = (
                    PrefixTree(index, id="blocks-tree"),
                    Mass(id="blocks-mass"),
                    XRay(id="blocks-xray"),
                )
                yield from self._folding

    def on_mount(self) -> None:
        self._open(PrefixTree)
        super().on_mount()

    def on_resize(self, event: Resize) -> None:
        num_blocks = self.context.transport.view.header.num_blocks
        most = _FEW_BLOCKS if event.size.height >= ROWS_FOR_TABS else _FEW_BLOCKS // 2
        self.set_class(num_blocks <= most, "-few-blocks")
        self.set_class(event.size.width >= _BROAD, "-broad")

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        if event.widget in self._folding:
            self._open(type(event.widget))

    def _open(self, kind: type[Panel]) -> None:
        for panel in self._folding:
            panel.set_class(not isinstance(panel, kind), "-folded")

    def draw(self) -> None:
        """Open attention mass or the x-ray when its first data arrives; fold an empty attention."""
        model = self.context.transport.view
        _, mass, xray = self._folding
        trace_seq = None if model.trace is None else model.trace.seq
        if trace_seq is not None and trace_seq != self._trace_seq:
            self._open(XRay)
        elif model.mass and not self._had_mass:
            self._open(Mass)
        elif self._had_mass and not (model.mass or mass.has_class("-folded") or mass.has_focus):
            self._open(PrefixTree)
        self._trace_seq, self._had_mass = trace_seq, bool(model.mass)
        mass.set_class(bool(model.mass), "-filled")
        xray.set_class(trace_seq is not None, "-filled")
        super().draw()
