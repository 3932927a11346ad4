"""`Context`: everything apart from the model that panels may read. The app owns it.

The model is the engine's state at the current moment. Panels may change only the selection.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from minivllm.events.recording.log import LogWriter
from minivllm.tui.control import ASKED_HERE, BURST, EngineControl
from minivllm.tui.draw.selection import Selection
from minivllm.tui.lesson import LessonControl
from minivllm.tui.race import RaceRuns
from minivllm.tui.start import Start
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.state.narration import Narration
from minivllm.tui.time.follow import SameMoment
from minivllm.tui.time.transport import Transport
from minivllm.tui.tour import Tour


class Figure(NamedTuple):
    """A number in bold, and what it counts."""

    number: str
    label: str


class RunSummary(NamedTuple):
    lines: list[str]
    step: int | None
    figures: tuple[Figure, ...] = ()

    def holds(self, newest: DashboardModel) -> bool:
        """Whether the engine has had no work since the summary."""
        return self.step is None or (self.step == newest.fold.step and not newest.fold.requests)


@dataclass(slots=True)
class Context:
    transport: Transport
    control: EngineControl | None = None
    """None if the engine is not in this process."""
    second: Transport | None = None
    """The second recording, for the Compare screen; kept at the same moment as the first."""
    recorder: LogWriter | None = None
    """Writes this run into a file. The dashboard reads only `loss`."""
    lesson: LessonControl | None = None
    tour: Tour | None = None
    race: RaceRuns | None = None
    behind: tuple[Transport, Transport | None] | None = None
    """The dashboard's own recordings, while the Compare screen shows a race in their place."""
    same: SameMoment = "step"
    """Whether two compared recordings are at the same step or at the same second."""
    start: Start | None = None
    """The start of the engine; None when it is over. Until then, `transport` has no events."""
    selection: Selection = field(default_factory=Selection)
    narration: Narration = field(default_factory=Narration)
    ascii: bool = False
    """Draw with printable ASCII only."""
    still: bool = False
    """Without colours or animations: no sign on a block stays longer than its step."""
    shows_confidence: bool = False
    """Colour the words of texts by the model's probability of them."""
    watch: str = ""
    suggests: bool = False
    """Suggest what to try until the first request arrives."""
    saved: str = ""
    """Which files have the run that was saved on leaving: for the caller's last words."""
    num_saved: int = 0
    """Number of events of the dashboard's own run in the file that E has saved last."""
    finished: RunSummary | None = None
    """The results of the run; None until the run is over."""
    event_filter: str = ""
    """For the Events screen: `word` shows events with the word, `!word` events without it."""

    @property
    def own(self) -> Transport:
        """The recording that the dashboard was opened for, even behind a race."""
        return self.transport if self.behind is None else self.behind[0]

    @property
    def engine(self) -> EngineControl | None:
        """The control of the engine that is shown; a race shows none."""
        return self.control if self.behind is None else None

    @property
    def engine_stands(self) -> bool:
        """Whether the engine is paused, and the picture is live."""
        is_live = self.transport.state == "live"
        return is_live and self.engine is not None and self.engine.state().paused

    @property
    def shows_the_end(self) -> bool:
        """Whether the results of a finished run are shown: there is nothing to pause."""
        return self.finished is not None and self.behind is None and self.transport.at_end

    @property
    def holds_unsaved(self) -> bool:
        """Whether no file has all of the requests that the user has sent."""
        recording, recorder = self.own.recording, self.recorder
        is_recorded = recorder is not None and recorder.loss is None
        # The first request of the user has number 1, alone or in a burst.
        is_steered = any(recording.arrival(f"{name}1") is not None for name in (ASKED_HERE, BURST))
        return is_steered and not is_recorded and len(recording) > self.num_saved
