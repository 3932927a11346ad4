"""The glossary goes from A to Z, and a topic's page links to each word that it shows."""

import re

from support.docs.built_site import DOCS

LEARN = DOCS / "learn"
WORD = re.compile(r"^\*\*(.+)\*\*\{ #(\S+) \}\n:   .*\]\(([\w./-]+)\S*\)$", re.MULTILINE)
PAGE = (LEARN / "glossary.md").read_text(encoding="utf-8")


def test_the_words_are_sorted_and_each_is_defined_once_below_its_letter():
    words = [name.strip("`").lower() for name, _, _ in WORD.findall(PAGE)]
    assert words == sorted(set(words))
    assert len(words) == PAGE.count("\n:   ")
    for letter, below in re.findall(r"^## (\w)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE):
        assert f"[{letter}](#{letter.lower()})" in PAGE
        assert {name.strip("`")[0].upper() for name, _, _ in WORD.findall(below)} == {letter}


def test_the_page_that_shows_a_word_links_to_it():
    shown = [(word, LEARN / page) for _, word, page in WORD.findall(PAGE) if "/" not in page]
    missing = [
        (word, page.name)
        for word, page in shown
        if f"(glossary.md#{word})" not in page.read_text(encoding="utf-8")
    ]
    assert missing == []
