"""`RaceKeys`: start and cancel a race, and choose its clock. See `tui.race`.

While the Compare screen shows a race, the race takes the place of the dashboard's own recording in
the context. So all keys of time, the time bar and the top line work on the race.
"""

from minivllm.errors import EventLogError
from minivllm.text import clean
from minivllm.tui.control import Entry
from minivllm.tui.dashboard import Dashboard
from minivllm.tui.race import RaceRuns
from minivllm.tui.screens.dialogs import RaceScreen


class RaceKeys:
    def __init__(self, app: Dashboard) -> None:
        self._app, self._context = app, app.context

    def ask(self) -> None:
        """Ask for two configurations, then start."""
        race = self._context.race
        if race is not None and race.state == "running":
            self._app.tell(f"A race is running ({race.part:.0%}); C cancels it.")
        elif not self._context.own.recording.head.fold.counters.generation_tokens:
            self._app.tell("No request has got a token yet, so there is nothing to race.")
        else:
            self._app.push_screen(RaceScreen(Entry() if race is None else race.asked), self.start)

    async def start(self, entry: Entry | None) -> None:
        if entry is None:  # esc in the dialog
            return
        self.close()
        try:
            self._context.race = RaceRuns(entry, self._context.own.source)
        except EventLogError as error:
            self._app.tell(str(error))
        else:
            await self._app.run_action("screen('compare')")
            self._app.draw()

    def cancel(self) -> None:
        race = self._context.race
        if race is None or race.state != "running":
            self._app.tell("No race is running; R starts one.")
        else:
            race.cancel()
            self._app.draw()

    def clock(self) -> None:
        context = self._context
        if context.second is None:
            self._app.tell("This needs two recordings: R races two configurations.")
        elif not context.transport.view.pace.is_timed:
            self._app.tell("A virtual clock has no seconds: both sides are at the same step.")
        else:
            context.same = "step" if context.same == "second" else "second"
            self._app.draw()

    def tick(self) -> bool:
        """Look at the race's progress. Return whether there may be something new to draw."""
        race = self._context.race
        if race is None or not race.poll():
            return False
        if race.state == "failed":
            self._app.report(clean(race.sentence))
        elif race.state == "over":
            race.start_playing()
            self._context.same = "second"
            if self._app.current_mode == "compare":
                self.show()
            else:
                self._app.report("The race is ready: press 6 to see it.")
        return True

    def show(self) -> None:
        """Put the race in the place of the dashboard's own recording, if there is one."""
        context = self._context
        if context.race is not None and context.race.sides is not None and context.behind is None:
            context.behind = context.transport, context.second
            context.transport, context.second = context.race.sides

    def hide(self) -> None:
        context = self._context
        if context.behind is not None:
            context.transport, context.second = context.behind
            context.behind = None

    def close(self) -> None:
        self.hide()
        if self._context.race is not None:
            self._context.race.close()
            self._context.race = None
