"""`Tour`: stops on a running engine; each has one sentence, and ends with its key.

At a stop, the app pauses the engine with the picture, selects what the sentence is about, and shows
the sentence in the narrated line. A stop whose key opens a window goes on when that has closed. The
next stop follows whatever else is pressed: one ends, too, when its run goes on.
"""

from collections.abc import Callable
from typing import NamedTuple

from minivllm.tui.draw.selection import Target, block, sequence
from minivllm.tui.state.chains import shared_blocks
from minivllm.tui.state.model import DashboardModel


class TourStop(NamedTuple):
    begins: Callable[[DashboardModel], Target | bool | None]
    """What to select, or True, when its moment has come."""
    sentence: str
    command: str
    """The id of the command that ends it."""
    then: str = ""
    """What to do after the key, if it opens a window or an answer."""


_SURE = 0.8
"""A word with this probability or more was no real choice."""
_READ = "The run goes on when you close the answer (esc)."
NEXT = "That was the tour. Next: minivllm lesson (6 minutes), or minivllm demo"


def _shared(model: DashboardModel) -> Target | None:
    return next(map(block, shared_blocks(model.fold.blocks)), None)


def _preempted(model: DashboardModel) -> Target | None:
    sequences, waiting = model.fold.sequences, model.fold.waiting
    return next((sequence(who) for who in waiting if sequences[who].status == "PREEMPTED"), None)


def _watched(model: DashboardModel) -> Target | bool:
    """Select a running request: from now on, its words are explained."""
    return next(map(sequence, model.fold.running), True)


def _in_doubt(model: DashboardModel) -> Target | None:
    """A request whose newest word was a real choice; any, if no running one is explained. At the
    end of the run, one with explained words."""
    words = [model.explanations.of(who) for who in model.fold.running]
    for who, word in zip(model.fold.running, words, strict=True):
        is_certain = word and word.chosen and word.chosen.final_probability >= _SURE
        if not is_certain and (word or not any(words)):
            return sequence(who)
    return None if words else next(map(sequence, model.explanations.judged), None)


STOPS = (
    TourStop(
        lambda model: model.fold.step >= 3,
        "Four requests run at once, a row each. Every step gives each of them one token.",
        "time.step",
    ),
    TourStop(
        _shared,
        "A block holds 16 tokens. White ones are shared: a prompt found them in the cache (a hit),"
        " and computed only the rest.",
        "look.why",
        _READ,
    ),
    TourStop(
        lambda model: model.fold.step >= 25 and _watched(model),
        "Below the map is the free queue: the order in which blocks are used and reused.",
        "screen.blocks",
    ),
    TourStop(
        _preempted,
        "No block was free, so the newest request was preempted: it gave up its blocks, and waits.",
        "look.why",
        _READ,
    ),
    TourStop(
        lambda model: (not model.fold.waiting or model.fold.step >= 80) and _watched(model),
        "Engines once served fixed batches from reserved memory: race this run against one.",
        "race.start",
        "The race plays by itself, and ends with who won and why.",
    ),
    TourStop(
        _in_doubt, "Every word is drawn from candidates, with a probability each.", "screen.choice"
    ),
)


class Tour:
    def __init__(self, stops: tuple[TourStop, ...] = STOPS) -> None:
        self.stops = stops
        self.number = 1
        """Of the current or next stop, from 1."""
        self.is_open = False
        self.is_answered = False
        """Whether the key of the open stop was pressed."""

    @property
    def is_over(self) -> bool:
        return self.number > len(self.stops)

    @property
    def stop(self) -> TourStop:
        return self.stops[self.number - 1]

    def begin(self, model: DashboardModel, at_end: bool) -> Target | bool | None:
        """Open the next stop if its moment has come; return what to select, or True.

        at_end: the run is over, so a stop whose moment has not come is left out
        """
        found = None
        while not (found or self.is_open or self.is_over):
            found = self.stop.begins(model)
            if not found and not at_end:
                break
            self.number += not found
        self.is_open |= bool(found)
        return found

    def answer(self, command_id: str) -> None:
        self.is_answered |= self.is_open and command_id == self.stop.command

    def end(self) -> None:
        self.is_open, self.is_answered, self.number = False, False, self.number + 1
