"""`VllmApp`: the screen of `minivllm attach --vllm`.

vLLM does not send minivllm's events, so the dashboard's own panels would have to guess. This screen
shows what vLLM reports, and lists what vLLM does not report. If the server stops answering, the
last numbers stay, and the top line says in red that they are old.
"""

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer

from minivllm.tui.draw.theme import DARK, LIGHT, Palette, themes_for
from minivllm.tui.vllm.source import VllmSource
from minivllm.tui.vllm.vllm_panels import (
    VllmBlocks,
    VllmHeader,
    VllmLatency,
    VllmLoad,
    VllmMemory,
    VllmPanel,
    VllmUnknown,
)

FRAMES_PER_SECOND = 4
"""More often than metrics arrive, which is once a second."""


class VllmApp(App[None]):
    CSS_PATH = "../dashboard.tcss"
    CSS = """
    #load { height: 4; }
    #kv-cache { height: 5; }
    #latency { height: 6; }
    #unknown { height: 7; }
    #left, #right { width: 1fr; }
    .-narrow #body { layout: vertical; }
    .-narrow #left { width: 1fr; height: 13; }
    .-narrow #right { width: 1fr; height: 1fr; }
    .-narrow #load { height: 3; }
    .-narrow #kv-cache { height: 3; }
    .-narrow #latency { height: 5; }
    .-narrow #unknown { height: 2; }
    """
    TITLE = "minivllm"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS: ClassVar = [(0, "-narrow"), (110, "-wide")]
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "quit"),
        ("t", "toggle_theme", "theme"),
        ("z", "maximize", "maximize"),
        Binding("R", "race", "race", show=False),
    ]

    def __init__(self, source: VllmSource, *, ascii: bool = False) -> None:
        super().__init__()
        for theme in themes_for(ascii=ascii):
            self.register_theme(theme)
        self.theme = DARK.name
        self._source = source
        self._ascii = ascii
        self._seen: object = None

    def compose(self) -> ComposeResult:
        yield VllmHeader(self._source, id="header")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield VllmLoad(id="load")
                yield VllmMemory(id="kv-cache")
                yield VllmLatency(id="latency")
                yield VllmUnknown(id="unknown")
            with Vertical(id="right"):
                yield VllmBlocks(self._source, id="blocks")
        yield Footer()

    def on_mount(self) -> None:
        for panel in self.query(VllmPanel):
            panel.plain = self._ascii
        self._restyle()
        self.theme_changed_signal.subscribe(self, lambda theme: self._restyle())
        self.call_after_refresh(self.draw)
        self.set_interval(1 / FRAMES_PER_SECOND, self._frame)

    def on_unmount(self) -> None:
        self._source.close()

    def _frame(self) -> None:
        has_news = self._source.poll()
        seen = self._source.status, self._source.kv_status
        if has_news or seen != self._seen:
            self._seen = seen
            self.draw()

    def draw(self) -> None:
        with self.batch_update():
            for panel in self.query(VllmPanel):
                panel.show(self._source.view)

    def _restyle(self) -> None:
        for panel in self.query(VllmPanel):
            panel.restyle(Palette(self.current_theme.dark))

    def action_toggle_theme(self) -> None:
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    def action_race(self) -> None:
        self.notify("A race needs the requests of a run, and vLLM's metrics contain none.")

    def action_maximize(self) -> None:
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif self.focused is not None:
            self.screen.maximize(self.focused)
        self.call_after_refresh(self.draw)
