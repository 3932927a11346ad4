"""The course in one table: each concept with its lesson and its panels.

`tools/site/course_tables.py` makes the site's list of ideas from it. What a lesson teaches and needs
is in `concepts.py`.
"""

from typing import NamedTuple

from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.course.library import find_lesson
from minivllm.tui.lesson import PanelName


class Concept(NamedTuple):
    name: str
    lesson: str
    panels: tuple[PanelName, ...]
    """Panels that its lesson highlights. The dashboard shows them for any run."""

    @property
    def exercises(self) -> tuple[str, ...]:
        """The names of its lesson's exercises."""
        number = find_lesson(self.lesson).number
        return tuple(one.name for one in exercises() if one.lesson == number)


COURSE = (
    Concept(
        "what serving is: users, engine, device",
        "what-serving-is",
        ("slots", "timelines", "waiting", "finished"),
    ),
    Concept("tokens and the one-by-one loop", "tokens", ("slots", "finished")),
    Concept("the KV cache: what it saves, how it grows", "kv-cache", ("blockmap", "step_history")),
    Concept("reservation and fragmentation", "naive-serving", ("blockmap", "waiting")),
    Concept("blocks and block tables", "block-tables", ("blockmap", "inspector", "freequeue")),
    Concept("static and continuous batching", "batching", ("timelines", "waiting")),
    Concept("one pass for many lengths: the flattened batch", "one-pass", ("flat_batch", "slots")),
    Concept(
        "token budget, prefill and decode, chunked prefill",
        "token-budget",
        ("budget", "step_history"),
    ),
    Concept(
        "prefix sharing: hash chain, free is not evicted, LRU",
        "prefix-sharing",
        ("prefix_tree", "freequeue"),
    ),
    Concept(
        "copy-on-write: parallel samples and beams", "copy-on-write", ("blockmap", "inspector")
    ),
    Concept("preemption and tail latency", "preemption", ("timelines", "waiting")),
    Concept(
        "sampling: temperature, cuts, the draw, why this token", "sampling", ("choice", "finished")
    ),
    Concept("serving: from a curl to events and metrics", "serving", ("eventlog", "timelines")),
    Concept(
        "weights and KV cache in fewer bits: scales, capacity and bandwidth",
        "bytes",
        ("blockmap", "timelines", "step_history"),
    ),
    Concept(
        "speculative decoding: drafts, verification, roll-back",
        "speculation",
        ("budget", "blockmap", "step_history"),
    ),
    Concept(
        "structured output: automaton, mask, forced tokens", "grammar", ("choice", "step_history")
    ),
    Concept("the way to vLLM: the same names", "way-to-vllm", ("budget", "eventlog")),
    Concept("the paged attention kernel", "paged-attention", ("xray", "mass")),
    Concept("the kernel ladder and the memory-bandwidth limit", "kernel-ladder", ("xray",)),
)


class PanelPlace(NamedTuple):
    name: str
    screen: str


VIEWS: dict[PanelName, PanelPlace] = {
    "slots": PanelPlace("Batch slots", "overview"),
    "blockmap": PanelPlace("KV cache", "blocks"),
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
}
SCREENS = ("overview", "blocks", "scheduler", "requests", "events", "compare", "choice")
"""In the order of their keys, 1 to 7."""
