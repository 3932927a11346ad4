"""Each page on a concept has what the others have: a picture, the events, the source, three
questions, and where to go on.
"""

import re

import pytest
from support.docs.built_site import DOCS

from minivllm.events.types import EVENT_KINDS

CONCEPTS = sorted(path for path in (DOCS / "concepts").glob("*.md") if path.name != "index.md")
TAGS = {kind.__struct_config__.tag for kind in EVENT_KINDS}


def test_there_is_a_page_for_each_concept() -> None:
    assert [path.stem for path in CONCEPTS] == [
        "block-pool", "copy-on-write", "kernels", "kv-cache", "prefix-cache", "sampling",
        "scheduler", "server",
    ]  # fmt: skip


@pytest.mark.parametrize("path", CONCEPTS, ids=lambda path: path.stem)
def test_a_concept_has_a_picture_its_events_its_source_and_three_folded_questions(path) -> None:
    text = path.read_text(encoding="utf-8")
    pictures = re.findall(r"!\[([^\]]+)\]\(\.\./assets/dashboard/([\w-]+\.svg)\)", text)
    assert pictures and all(len(alt) > 30 for alt, _ in pictures)
    assert TAGS & set(re.findall(r"`([a-z_]+\.[a-z_]+)`", text))
    assert re.search(r"\]\(\.\./\.\./(minivllm|kernels|tui)/[\w/]+\.py#\w+", text)
    questions = text.split("\n## Three questions\n")[1].split("\n## ")[0]
    answers = re.split(r"^\?\?\? question ", questions, flags=re.MULTILINE)[1:]
    assert len(answers) == 3 and all(len(answer.split()) > 15 for answer in answers)
    for section in ("tutorial/", "exercises/", "reference/"):
        assert f"(../{section}" in text.split("\n## ")[-1], section
