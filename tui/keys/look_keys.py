"""`LookKeys`: the keys that switch screens and select things in a panel."""

from typing import TYPE_CHECKING

from minivllm.tui.widgets.frame.panel import Panel

if TYPE_CHECKING:
    from minivllm.tui.app import DashboardApp

_NO_FOCUS = "No panel has the focus: tab moves the focus, ↑ and ↓ select an item."


class LookKeys:
    def __init__(self, app: "DashboardApp") -> None:
        self._app = app
        self.visited: list[str] = []
        """Names of the screens that `back` returns to, newest last."""

    async def screen(self, name: str) -> None:
        if name != self._app.current_mode:
            self.visited.append(self._app.current_mode)
            await self.go(name)

    async def go(self, name: str) -> None:
        if name == "compare":
            self._app.race_keys.show()
        else:
            self._app.race_keys.hide()
        await self._app.switch_mode(name)
        self._app.call_after_refresh(self._app.draw)

    async def back(self) -> None:
        """Close notifications or a maximized panel; else go to the last screen; else unselect."""
        if self._app.close_sentences():
            return
        if self._app.screen.maximized is not None:
            self.maximize()
        elif self.visited:
            await self.go(self.visited.pop())
        else:
            self._app.context.selection.clear()
            self._app.draw()

    def cursor(self, by: int) -> None:
        focused = self._app.focused
        if not isinstance(focused, Panel):
            self._app.tell(_NO_FOCUS)
        elif not focused.move_cursor(by):
            self._app.tell("This panel has nothing to select now: tab moves to the next one.")

    async def open(self) -> None:
        target = self._app.context.selection.last
        made_for = {
            "block": "blocks",
            "sequence": "requests",
            "step": "scheduler",
            "event": "events",
        }
        if target is None:
            self._app.tell("Nothing is selected: tab moves to a panel, ↑ and ↓ select an item.")
        else:
            await self.screen(made_for[target.kind])

    def ids(self) -> None:
        """Switch the block inspector between words and ids."""
        context = self._app.context
        context.shows_ids = not context.shows_ids
        shown = "ids" if context.shows_ids else "words"
        self._app.tell(f"The block inspector shows tokens as {shown}.")
        self._app.draw()

    def maximize(self) -> None:
        screen, focused = self._app.screen, self._app.focused
        if screen.maximized is not None:
            screen.minimize()
        elif isinstance(focused, Panel):
            screen.maximize(focused)
        else:
            self._app.tell(_NO_FOCUS)
        screen.refresh_bindings()  # the bottom line now shows how to restore the screen
        self._app.call_after_refresh(self._app.draw)
