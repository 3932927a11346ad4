"""The course in one table: each concept with its lesson, its exercises and where the dashboard shows it.

The page docs/lessons.md is made from it, the library and the catalogue, so that none of them can say something else. Tests
see that every lesson and every exercise stands in it, and that a lesson really lights the panels that stand beside it.
The easy thing to get wrong is an exercise that belongs to two concepts: its home is the lesson that it names
(`Exercise.lesson`), and other concepts may name it too.
"""

from typing import NamedTuple

from minivllm.lessons.exercises.catalogue import exercises, find_exercise
from minivllm.lessons.library import find_lesson, lessons
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
    Concept("the KV cache: what it saves, how it grows", "kv-cache", ("paged-attention",), ("blockmap", "step_history")),
    Concept("reservation and fragmentation", "naive-serving", ("waste",), ("blockmap", "waiting")),
    Concept(
        "blocks and block tables", "block-tables", ("block-pool", "block-table", "slot-mapping"), ("blockmap", "inspector", "freequeue")
    ),
    Concept(
        "the paged attention kernel", "paged-attention", ("paged-attention", "paged-attention-triton"), ("xray", "mass")
    ),
    Concept("static and continuous batching", "batching", ("token-budget",), ("timelines", "waiting")),
    Concept(
        "token budget, prefill and decode, chunked prefill", "token-budget", ("token-budget", "chunked-prefill"),
        ("budget", "step_history"),
    ),
    Concept(
        "prefix sharing: hash chain, free is not evicted, LRU", "prefix-sharing", ("hash-chain", "lru"),
        ("prefix_tree", "freequeue"),
    ),
    Concept(
        "copy-on-write: parallel samples and beams", "copy-on-write", ("copy-on-write", "top-p"), ("blockmap", "inspector")
    ),
    Concept("preemption and tail latency", "preemption", ("preemption",), ("timelines", "waiting")),
    Concept("serving: from a curl to events and metrics", "serving", ("stop-strings",), ("eventlog", "timelines")),
    Concept(
        "the kernel ladder and the memory-bandwidth limit", "kernel-ladder", ("split-kv", "paged-attention-triton"), ("xray",)
    ),
    Concept("the way to vLLM: the same names", "way-to-vllm", ("block-pool", "token-budget"), ("budget", "eventlog")),
)  # fmt: skip


class View(NamedTuple):
    """A panel as people call it, and the screen on which it is seen best."""

    name: str
    screen: str


VIEWS: dict[PanelName, View] = {
    "slots": View("slots", "overview"),
    "blockmap": View("block map", "blocks"),
    "budget": View("token budget", "scheduler"),
    "waiting": View("waiting", "overview"),
    "freequeue": View("free queue", "blocks"),
    "eventlog": View("last decisions", "overview"),
    "inspector": View("inspector", "blocks"),
    "prefix_tree": View("prefix tree", "blocks"),
    "mass": View("attention mass", "blocks"),
    "xray": View("kernel x-ray", "blocks"),
    "timelines": View("timelines", "requests"),
    "step_history": View("step history", "scheduler"),
    "finished": View("finished", "overview"),
}
_SCREENS = ("overview", "blocks", "scheduler", "requests", "events", "compare")


def page() -> str:
    """docs/lessons.md."""
    parts = [_TOP, "| | lesson | minutes | `minivllm lesson` |\n|---|---|---|---|\n"]
    parts += [f"| {one.number} | {one.title} | {one.minutes} | `{one.name}` |\n" for one in lessons()]
    parts += [_EXERCISES, "| exercise | after lesson | minutes | what is written |\n|---|---|---|---|\n"]
    parts += [
        f"| `{one.name}` {one.title.partition(': ')[2]} | {one.lesson} | {one.minutes} | {_written(one.symbol)} |\n"
        for one in exercises()
    ]
    parts += [_CONCEPTS, "| concept | lesson | exercises | in the dashboard |\n|---|---|---|---|\n"]
    parts += [f"| {one.name} | {find_lesson(one.lesson).number} | {_names(one)} | {_views(one)} |\n" for one in COURSE]
    return "".join(parts)


def _names(concept: Concept) -> str:
    return ", ".join(f"`{find_exercise(name).name}`" for name in concept.exercises)


def _written(symbols: str) -> str:
    return ", ".join(f"`{symbol}`" for symbol in symbols.split(", "))


def _views(concept: Concept) -> str:
    views = (VIEWS[panel] for panel in concept.panels)
    return ", ".join(f"{view.name} (key {1 + _SCREENS.index(view.screen)})" for view in views)


_TOP = """\
# Lessons and exercises

This page is made from the lessons and exercises themselves: `python -m minivllm.lessons.course > docs/lessons.md`.
For whoever gives a course, [teach.md](teach.md) has a plan and what to know about grading.

## Lessons

A lesson is watched and guessed at. It runs the real engine on a clock that stands still between keys; each page has at most sixty
words, and every few pages you are asked what will happen, and why if it was something else. Each claim is checked on the
engine while you read it. `space` goes on, `b` goes back in time, `0` comes back from the other screens.

```
minivllm lesson                       the list, and how far you are
minivllm lesson 3                     in the dashboard
minivllm lesson 3 --plain             in any terminal, or in a pipe
minivllm lesson 3 --auto --plain      all of it at once
minivllm lesson 3 --transcript f.md   as a page
```

"""

_EXERCISES = """
## Exercises

An exercise is written. Its file is the engine's own with holes; when it passes, the engine and the dashboard run on what you wrote.

```
minivllm exercise start block-pool    a folder outside the repository
minivllm exercise check block-pool    red at first; a failure comes with the smallest case that shows it
minivllm exercise diff block-pool     the dashboard, at the first step that differs from the engine's
minivllm exercise demo block-pool     the dashboard, on your code
```

"""

_CONCEPTS = """
## Where each concept is

"""

if __name__ == "__main__":
    print(page(), end="")
