"""`Dashboard`: what keys and screens use of the program: what it shows, and what it says.

`app.DashboardApp` adds the keys, and the frames that follow an engine or a recording.
"""

from textual.app import App
from textual.binding import Binding

from minivllm.tui.context import Context
from minivllm.tui.draw.portable import to_ascii
from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.state.model import DashboardModel

_SECONDS_TO_READ, _SECONDS_FOR_NEWS = 5, 8
_SECONDS_OF_A_DAY = 86_400


class Dashboard(App[str]):
    context: Context

    def get_key_display(self, binding: Binding) -> str:
        # As printed on keys and in the docs; the sign has no substitute in ASCII.
        display = super().get_key_display(binding).replace("⏎", "enter").replace("⌫", "backspace")
        return to_ascii(display) if self.context.ascii else display

    @property
    def model(self) -> DashboardModel:
        return self.context.transport.view

    def draw(self) -> None:
        screen = self.dashboard_screen
        # The timer can fire before a new screen has mounted its panels.
        if screen is not None and screen.has_panels:
            with self.batch_update():
                screen.draw()

    @property
    def dashboard_screen(self) -> DashboardScreen | None:
        """The current screen, or the screen under an open window."""
        screen = self.screen_stack[0] if self.screen_stack else None
        return screen if isinstance(screen, DashboardScreen) else None

    # ---- notifications ----

    def tell(self, sentence: str, title: str = "", *, stays: bool = False) -> None:
        """Answer a key until the next one, or for some seconds; `stays`: until the user closes it."""
        if stays:
            self.clear_notifications()
        seconds = _SECONDS_OF_A_DAY if stays else _SECONDS_TO_READ
        self.notify(sentence, title=title, markup=False, timeout=seconds)

    def report(self, news: str) -> None:
        """Show for some seconds what no key has asked for; keys leave it there."""
        self.notify(news, markup=False, timeout=_SECONDS_FOR_NEWS)

    def on_notify(self) -> None:
        """Before Textual adds a notification, remove older ones, except those that stay."""
        self.forget(_SECONDS_FOR_NEWS)

    def forget(self, most: int = _SECONDS_TO_READ) -> None:
        """Close the answers of earlier keys, or all notifications of at most so many seconds."""
        for old in [old for old in self._notifications if old.timeout <= most]:
            self._unnotify(old)

    @property
    def has_sentences(self) -> bool:
        return bool(self._notifications)

    @property
    def has_answer(self) -> bool:
        """Whether a sentence is shown that stays."""
        return any(shown.timeout == _SECONDS_OF_A_DAY for shown in self._notifications)

    def close_sentences(self) -> bool:
        """Close all notifications; return False if there were none."""
        had_some = self.has_sentences
        self.clear_notifications()
        return had_some
