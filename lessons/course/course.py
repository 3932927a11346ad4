"""The course in one table: each concept with its lesson, its exercises and where the dashboard
shows it.

The site's lists of lessons and exercises are made from it, the library and the catalogue
(`minivllm.lessons.site`), so that none of them can say something else. Tests see that every lesson
and every exercise stands in it, and that a lesson really lights the panels that stand beside it.
The easy thing to get wrong is an exercise that belongs to two concepts: its home is the lesson that
it names (`Exercise.lesson`), and other concepts may name it too.
"""

from typing import NamedTuple

from minivllm.tui.lesson import PanelName


class Concept(NamedTuple):
    """One thing that a person should understand."""

    name: str
    lesson: str
    exercises: tuple[str, ...]
    panels: tuple[PanelName, ...]
    """What its lesson lights, and the dashboard shows of any run."""


COURSE = (
    Concept("tokens and the one-by-one loop", "tokens", ("top-p",), ("slots", "finished")),
    Concept(
        "the KV cache: what it saves, how it grows",
        "kv-cache",
        ("paged-attention",),
        ("blockmap", "step_history"),
    ),
    Concept("reservation and fragmentation", "naive-serving", ("waste",), ("blockmap", "waiting")),
    Concept(
        "blocks and block tables",
        "block-tables",
        ("block-pool", "block-table", "slot-mapping"),
        ("blockmap", "inspector", "freequeue"),
    ),
    Concept(
        "the paged attention kernel",
        "paged-attention",
        ("paged-attention", "paged-attention-triton"),
        ("xray", "mass"),
    ),
    Concept(
        "static and continuous batching", "batching", ("token-budget",), ("timelines", "waiting")
    ),
    Concept(
        "token budget, prefill and decode, chunked prefill",
        "token-budget",
        ("token-budget", "chunked-prefill"),
        ("budget", "step_history"),
    ),
    Concept(
        "prefix sharing: hash chain, free is not evicted, LRU",
        "prefix-sharing",
        ("hash-chain", "lru"),
        ("prefix_tree", "freequeue"),
    ),
    Concept(
        "copy-on-write: parallel samples and beams",
        "copy-on-write",
        ("copy-on-write", "top-p"),
        ("blockmap", "inspector"),
    ),
    Concept("preemption and tail latency", "preemption", ("preemption",), ("timelines", "waiting")),
    Concept(
        "serving: from a curl to events and metrics",
        "serving",
        ("stop-strings",),
        ("eventlog", "timelines"),
    ),
    Concept(
        "the kernel ladder and the memory-bandwidth limit",
        "kernel-ladder",
        ("split-kv", "paged-attention-triton"),
        ("xray",),
    ),
    Concept(
        "the way to vLLM: the same names",
        "way-to-vllm",
        ("block-pool", "token-budget"),
        ("budget", "eventlog"),
    ),
)


class PanelPlace(NamedTuple):
    """A panel as people call it, and the screen on which it is seen best."""

    name: str
    screen: str


VIEWS: dict[PanelName, PanelPlace] = {
    "slots": PanelPlace("slots", "overview"),
    "blockmap": PanelPlace("block map", "blocks"),
    "budget": PanelPlace("token budget", "scheduler"),
    "waiting": PanelPlace("waiting", "overview"),
    "freequeue": PanelPlace("free queue", "blocks"),
    "eventlog": PanelPlace("last decisions", "overview"),
    "inspector": PanelPlace("inspector", "blocks"),
    "prefix_tree": PanelPlace("prefix tree", "blocks"),
    "mass": PanelPlace("attention mass", "blocks"),
    "xray": PanelPlace("kernel x-ray", "blocks"),
    "timelines": PanelPlace("timelines", "requests"),
    "step_history": PanelPlace("step history", "scheduler"),
    "finished": PanelPlace("finished", "overview"),
}
SCREENS = ("overview", "blocks", "scheduler", "requests", "events", "compare")
"""In the order of their keys, 1 to 6."""
