"""`LookKeys`: the keys that switch screens and select things in a panel."""

from bisect import bisect_left
from typing import TYPE_CHECKING

from minivllm.text import short_name
from minivllm.tui.answers.why_tokens import how_to_explain
from minivllm.tui.draw.selection import token
from minivllm.tui.widgets.choice.choice import chosen_sequence
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
        if name == "choice":
            self._app.engine_keys.watch_first()  # so that there is something to see
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
            "token": "choice",
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

    def confidence(self) -> None:
        """Colour the words in the slots by the model's probability of them, or stop it."""
        app, context = self._app, self._app.context
        context.shows_confidence = not context.shows_confidence
        if not context.shows_confidence:
            app.tell("The words in the slots have one colour again.")
        elif app.model.explanations.judged:
            app.tell(
                "Words are coloured by the model's probability of them: green from 60 %, yellow"
                " from 30 %; underlined below that, and red below 10 %. Words of unwatched"
                " sequences keep their colour."
            )
        else:
            app.tell(how_to_explain(context, app.model, context.selection.seq_id))
        app.draw()

    def word(self, by: int) -> None:
        """Walk through the explained words of the shown sequence."""
        app, selection = self._app, self._app.context.selection
        seq_id = chosen_sequence(app.model, selection)
        judged = app.model.explanations.judged.get(seq_id or "", ())
        positions = [one.position for one in judged if one.event_seq is not None]
        if seq_id is None or not positions:
            app.tell(how_to_explain(app.context, app.model, seq_id))
            return
        here = positions[-1] if selection.position is None else selection.position
        to = bisect_left(positions, here) + by
        if to < 0:
            app.tell(f"No earlier token of {short_name(seq_id)} is explained.")
        elif to >= len(positions):
            selection.position = None  # from here on, follow the newest word
            app.tell(f"This is the newest token of {short_name(seq_id)}.")
        else:
            selection.choose(token(seq_id, positions[to]))
        app.draw()

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
