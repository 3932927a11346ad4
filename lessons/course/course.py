"""The course in one table: each concept with its lesson, its exercises and its panels.

`minivllm.lessons.site` makes the site's lists from this table. An exercise can belong to several
concepts, but to only one lesson (`Exercise.lesson`).
"""

from typing import NamedTuple

from minivllm.tui.lesson import PanelName


class Concept(NamedTuple):
    name: str
    lesson: str
    exercises: tuple[str, ...]
    panels: tuple[PanelName, ...]
    """Panels that its lesson highlights. The dashboard shows them for any run."""


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
        ("hash-chain", "lru", "bug-shared-prompt", "bug-same-words", "bug-cold-start"),
        ("prefix_tree", "freequeue"),
    ),
    Concept(
        "copy-on-write: parallel samples and beams",
        "copy-on-write",
        ("copy-on-write", "top-p", "bug-three-stories"),
        ("blockmap", "inspector"),
    ),
    Concept(
        "preemption and tail latency",
        "preemption",
        ("preemption", "bug-last-in-line", "bug-early-word", "bug-back-again"),
        ("timelines", "waiting"),
    ),
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
        "speculative decoding: drafts, verification, roll-back",
        "speculation",
        ("verify-drafts",),
        ("budget", "blockmap", "step_history"),
    ),
    Concept(
        "weights and KV cache in fewer bits: scales, capacity and bandwidth",
        "bytes",
        ("few-bits",),
        ("blockmap", "timelines", "step_history"),
    ),
    Concept(
        "structured output: automaton, mask, forced tokens",
        "grammar",
        ("token-mask",),
        ("choice", "step_history"),
    ),
    Concept(
        "the way to vLLM: the same names",
        "way-to-vllm",
        ("block-pool", "token-budget"),
        ("budget", "eventlog"),
    ),
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
}
SCREENS = ("overview", "blocks", "scheduler", "requests", "events", "compare", "choice")
"""In the order of their keys, 1 to 7."""
