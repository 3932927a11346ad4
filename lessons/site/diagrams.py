"""The diagrams of the course: their names and what they show, for readers who cannot see them.

`tools/pictures/make_diagrams.py` draws each one as docs/assets/diagrams/NAME.svg. A lesson names
its diagram in `Teacher.say`, and the page of an exercise takes it from `OF_EXERCISES`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from minivllm.errors import LessonError
from minivllm.lessons.site.markdown import attribute

DIAGRAMS_FOLDER = "../assets/diagrams"


class Diagram(NamedTuple):
    title: str
    lesson: str
    """Name of the lesson that shows it, and whose engines have its figures."""
    description: str
    """What the picture shows, in one or two sentences: the text in place of the picture."""


DIAGRAMS: Mapping[str, Diagram] = MappingProxyType(
    {
        "serving": Diagram(
            "Users, engine, device",
            "what-serving-is",
            "Three users send prompts to one engine. In each step the engine gives the device one"
            " batch with tokens of all three, and gets one new token for each. The device holds the"
            " weights once, and keys and values of each user.",
        ),
        "step-loop": Diagram(
            "The step loop",
            "tokens",
            "A loop of three boxes: schedule chooses requests and tokens, execute runs the model"
            " once on all of them, sample draws one token for each request. Then the next step"
            " begins.",
        ),
        "kv-cache": Diagram(
            "What the KV cache holds",
            "kv-cache",
            "For each token, each layer and each key/value head there is a key and a value. One"
            " column through all layers is what one token takes.",
        ),
        "reserved-and-used": Diagram(
            "Reserved against used",
            "naive-serving",
            "Without paging, two reservations and a remainder fill the memory, and few of the"
            " slots hold a token. With paging, five requests hold only the blocks of their tokens,"
            " and half of the memory is free.",
        ),
        "block-table": Diagram(
            "Block table and page table",
            "block-tables",
            "A block table maps the logical blocks of a request to physical blocks anywhere in the"
            " pool, as a page table maps the pages of a process to frames of memory.",
        ),
        "batching": Diagram(
            "Static and continuous batching",
            "batching",
            "Two batch slots over time, once for each way. In a static batch, the slot of a short"
            " answer is empty until the long one has ended. With continuous batching, a waiting"
            " request takes it in the next step.",
        ),
        "flattened-batch": Diagram(
            "Padded batch, flattened batch",
            "one-pass",
            "Above, three sequences in a rectangle, as long as the longest, most of it padding."
            " Below, the same tokens one after another in one list, with the position and the slot"
            " of each and the boundaries of the sequences.",
        ),
        "hash-chain": Diagram(
            "The hash chain",
            "prefix-sharing",
            "Each full block has a hash of the hash before it and its own tokens. Two prompts that"
            " differ in one token of their second block share the first block, and no block"
            " after it, although the third has the same tokens.",
        ),
        "copy-on-write": Diagram(
            "Copy-on-write, before and after",
            "copy-on-write",
            "Before, three samples share a full and a half-full block. After each has written, they"
            " share the full block, two have copies of the other, and the last one writes in"
            " place.",
        ),
        "preemption": Diagram(
            "Preemption on a time line",
            "preemption",
            "Three requests run until all blocks are in use. The newest loses its blocks and waits"
            " until the others have ended. Then all its tokens are computed again in one step, and"
            " it continues.",
        ),
        "roofline": Diagram(
            "The roofline",
            "kernel-ladder",
            "Operations per second over operations per byte. On the slope, memory bandwidth is the"
            " limit: there are decodes of few requests. On the flat part, arithmetic is: there are"
            " large batches and long prompts.",
        ),
        "split-and-merge": Diagram(
            "Split and merge",
            "kernel-ladder",
            "The context is cut into parts, and each part has a program of its own, which returns"
            " its largest score, its sum and its weighted mean. A second kernel merges these to the"
            " result of the whole context.",
        ),
        "speculation": Diagram(
            "Draft, verify, roll back",
            "speculation",
            "One step computes the last known token and all drafts. Each draft is compared with the"
            " token drawn in the row before it. Those after the first wrong one are thrown away,"
            " and the count of computed tokens goes back.",
        ),
        "quantized-block": Diagram(
            "A block of 32 weights in 4 bits",
            "bytes",
            "32 real weights, each moved to the nearest of 16 evenly spaced values. The block is"
            " stored as a scale, a minimum and 32 numbers of 4 bits: 20 bytes.",
        ),
    }
)
"""By name."""

OF_EXERCISES: Mapping[str, str] = MappingProxyType(
    {
        "kv-cache": "kv-cache",
        "block-table": "block-table",
        "engine-loop": "step-loop",
        "continuous-batching": "batching",
        "flattened-batch": "flattened-batch",
        "hash-chain": "hash-chain",
        "copy-on-write": "copy-on-write",
        "preemption": "preemption",
        "roofline": "roofline",
        "few-bits": "quantized-block",
        "verify-drafts": "speculation",
        "split-kv": "split-and-merge",
        "waste": "reserved-and-used",
    }
)
"""Name of an exercise -> name of the diagram on its page."""


def to_image(name: str) -> str:
    """The diagram as Markdown. Raises `LessonError` if there is none of this name."""
    if name not in DIAGRAMS:
        raise LessonError(f"There is no diagram {name!r}: use one of {', '.join(DIAGRAMS)}.")
    words = attribute(f"{DIAGRAMS[name].title}. {DIAGRAMS[name].description}")
    return f"![{words}]({DIAGRAMS_FOLDER}/{name}.svg)\n"
