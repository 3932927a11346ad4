"""The course in one table, course.toml: each lesson with its concept, its panels and its terms.

`tools/site/course_tables.py` makes the site's lists from it. The terms are those of the texts, so
`tests/lessons/test_concepts.py` finds a lesson that uses a term before it is taught.
"""

import tomllib
from importlib.resources import files
from typing import NamedTuple

from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.course.library import find_lesson
from minivllm.tui.lesson import PanelName

_TABLE = tomllib.loads(files(__package__).joinpath("course.toml").read_text(encoding="utf-8"))


class Concept(NamedTuple):
    name: str
    lesson: str
    panels: list[PanelName]
    """Panels that its lesson highlights. The dashboard shows them for any run."""
    teaches: list[str]
    """Terms, as in the lesson's text."""
    needs: list[str]
    """Terms of earlier lessons."""

    @property
    def exercises(self) -> tuple[str, ...]:
        """The names of its lesson's exercises."""
        number = find_lesson(self.lesson).number
        return tuple(exercise.name for exercise in exercises() if exercise.lesson == number)


COURSE = tuple(Concept(**entry) for entry in _TABLE["lesson"])


class PanelPlace(NamedTuple):
    name: str
    screen: str


VIEWS: dict[PanelName, PanelPlace] = {
    "slots": PanelPlace("Batch slots", "overview"),
    "blockmap": PanelPlace("KV cache", "blocks"),
    "hostmap": PanelPlace("Host memory", "blocks"),
    "budget": PanelPlace("Token budget", "scheduler"),
    "waiting": PanelPlace("Waiting", "overview"),
    "freequeue": PanelPlace("Free queue", "blocks"),
    "eventlog": PanelPlace("Recent events", "overview"),
    "inspector": PanelPlace("Block inspector", "blocks"),
    "prefix_tree": PanelPlace("Prefix cache", "blocks"),
    "mass": PanelPlace("Attention", "blocks"),
    "xray": PanelPlace("Kernel x-ray", "blocks"),
    "timelines": PanelPlace("Requests", "requests"),
    "step_history": PanelPlace("Steps", "scheduler"),
    "finished": PanelPlace("Finished", "overview"),
    "choice": PanelPlace("The choice", "choice"),
    "flat_batch": PanelPlace("Flat batch", "scheduler"),
    "experts": PanelPlace("Experts", "scheduler"),
}
SCREENS = ("overview", "blocks", "scheduler", "requests", "events", "compare", "choice")
"""In the order of their keys, 1 to 7."""
