"""The diagrams of the course: docs/assets/diagrams/NAME.svg, one file for light and dark pages.

A lesson names its diagram in `Teacher.say`, and an exercise's page takes it from `OF_EXERCISES`. The
file has a title and says what it shows, in one or two sentences, for readers who cannot see it.
"""

import re
from html import unescape
from pathlib import Path

from minivllm.errors import LessonError
from minivllm.lessons.site.markdown import attribute

DIAGRAMS_FOLDER = "../assets/diagrams"
FILES = Path(__file__).resolve().parents[2] / "docs/assets/diagrams"

OF_EXERCISES = {
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
"""Name of an exercise -> name of the diagram on its page."""


def to_image(name: str) -> str:
    """The diagram as Markdown. Raises `LessonError` if there is none of this name."""
    file = FILES / f"{name}.svg"
    if not file.is_file():
        raise LessonError(f"There is no diagram {name!r}: {file} does not exist.")
    svg = file.read_text(encoding="utf-8")
    title, shown = (
        unescape(re.search(f"<{tag} [^>]*>(.*?)</{tag}>", svg)[1]) for tag in ("title", "desc")
    )
    return f"![{attribute(f'{title}. {shown}')}]({DIAGRAMS_FOLDER}/{name}.svg)\n"
