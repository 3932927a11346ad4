"""The glossary has every term that a lesson or an exercise teaches."""

import re

import pytest
from support.docs.built_site import DOCS

from minivllm.lessons.course.concepts import EXERCISES, LESSONS

GLOSSARY = (DOCS / "learn/glossary.md").read_text(encoding="utf-8")

VARIANTS = {
    "block": "physical block",
    "evicted": "eviction",
    "flattened": "flattened (ragged) batch",
    "forced": "forced token",
    "key": "keys and values",
    "mask": "grammar mask",
    "preempted": "preemption",
    "quant": "quantization",
    "ref_cnt": "reference count",
    "value": "keys and values",
}
"""Term in `concepts.py` -> its entry, where the two are not the same word."""


def entries() -> list[str]:
    return [
        name.strip("`").lower()
        for name in re.findall(r"^\*\*(.+)\*\*\n:   ", GLOSSARY, flags=re.MULTILINE)
    ]


def taught() -> set[str]:
    every = [*LESSONS.values(), *EXERCISES.values()]
    return {term for learned in every for term in learned.teaches}


@pytest.mark.parametrize("term", sorted(taught()))
def test_each_term_that_is_taught_has_an_entry(term):
    abbreviations = re.findall(r"\((\w+)\)", " ".join(entries()))
    assert VARIANTS.get(term, term.lower()) in [*entries(), *abbreviations]


def test_no_term_has_two_entries_and_no_variant_is_left_over():
    assert len(entries()) == len(set(entries()))
    assert set(VARIANTS) <= taught()


def test_each_entry_links_to_a_page():
    texts = re.findall(r"^:   (.+)$", GLOSSARY, flags=re.MULTILINE)
    assert len(texts) == len(entries())
    assert [text for text in texts if not re.search(r"\]\([^)]+\.md(#[\w-]+)?\)$", text)] == []
