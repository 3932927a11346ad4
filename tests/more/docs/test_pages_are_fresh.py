"""The committed pages that are generated from the code are what the code makes today."""

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.tool_modules import load_tool

from minivllm.lessons.course.library import lessons
from minivllm.lessons.site.__main__ import other_pages
from minivllm.lessons.site.topic_page import page_name, topic_page

TOOL = load_tool("site/make_pages.py")
LESSONS = {f"learn/{page_name(lesson)}": lesson for lesson in lessons()}
LISTS = other_pages()


@pytest.mark.parametrize("page", [*TOOL.PAGES, *LISTS, *LESSONS])
def test_a_page_is_what_the_code_makes_today(page):
    made = LISTS.get(page)
    if page in TOOL.PAGES:
        made = TOOL.PAGES[page]()
    elif page in LESSONS:
        topic = topic_page(LESSONS[page], draw=lambda page, title: "")  # pictures take minutes
        made = topic.text
        for file, recording in topic.recordings.items():
            committed = TOOL.DOCS / "assets/recordings/lessons" / file
            assert committed.read_text(encoding="utf-8") == recording, "`make docs-pages` writes it"
    committed = (TOOL.DOCS / page).read_text(encoding="utf-8")
    assert committed == made, f"docs/{page} has fallen behind: `make docs-pages` writes it again"
