"""What pages show of the code is what the code makes today."""

import re

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.tool_modules import load_tool

from minivllm.lessons.course.library import lessons
from minivllm.lessons.site.__main__ import other_pages
from minivllm.lessons.site.topic_page import page_name, topic_page

TOOL = load_tool("site/make_pages.py")
LESSONS = {f"learn/{page_name(lesson)}": lesson for lesson in lessons()}
LISTS = other_pages()
READ = re.compile(
    r'environ(?:\.get|\.setdefault)?[\[(]\s*"([A-Z_]+)"|"((?:MINIVLLM|VLLM|XDG)_[A-Z_]+)"'
)
"""A name that is read from `os.environ`, or that is one of ours by its look."""


@pytest.mark.parametrize("page", [*TOOL.PAGES, *LISTS, *LESSONS])
def test_a_page_is_what_the_code_makes_today(page):
    made = LISTS.get(page)
    if page in TOOL.PAGES:
        made = TOOL.page(page)
    elif page in LESSONS:
        topic = topic_page(LESSONS[page], draw=lambda page, title: "")  # pictures take minutes
        made = topic.text
        for file, recording in topic.recordings.items():
            committed = TOOL.DOCS / "assets/recordings/lessons" / file
            assert committed.read_text(encoding="utf-8") == recording, "`make docs-pages` writes it"
    committed = (TOOL.DOCS / page).read_text(encoding="utf-8")
    assert committed == made, f"docs/{page} has fallen behind: `make docs-pages` writes it again"


def test_every_environment_variable_that_the_code_reads_is_on_the_page_of_configuration():
    page = (TOOL.DOCS / "use/configuration.md").read_text(encoding="utf-8")
    root, names = TOOL.DOCS.parent, set()
    for file in (
        one
        for room in ("minivllm", "kernels", "tui", "lessons")
        for one in (root / room).rglob("*.py")
    ):
        # The peers' side runs in another engine's process, and sets variables of that engine.
        if "peer_side" not in file.parts:
            names |= {a or b for a, b in READ.findall(file.read_text(encoding="utf-8"))}
    assert len(names) > 10
    assert {name for name in names if f"`{name}`" not in page} == set()
