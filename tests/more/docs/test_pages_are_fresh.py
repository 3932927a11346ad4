"""What pages show of the code is what the code makes today."""

import re

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.tool_modules import load_tool

from minivllm.lab.playground.exercise import exercises_here
from minivllm.lab.race.recorded import read_recorded_run
from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.course.library import lessons
from minivllm.server.metrics.router import EngineMetrics

TOOL = load_tool("site/make_pages.py")
SPECULATION = "assets/recordings/speculation.jsonl"  # there are metrics for drafts only
PLAYS_EVERY_LESSON = "teach/misconceptions.md"
READ = re.compile(
    r'environ(?:\.get|\.setdefault)?[\[(]\s*"([A-Z_]+)"|"((?:MINIVLLM|VLLM|XDG)_[A-Z_]+)"'
)
"""A name that is read from `os.environ`, or that is one of ours by its look."""


@pytest.mark.parametrize("page", [name for name in TOOL.PAGES if name != PLAYS_EVERY_LESSON])
def test_a_page_is_what_the_code_makes_today(page):
    committed = (TOOL.DOCS / page).read_text(encoding="utf-8")
    ways = f"docs/{page} has fallen behind: `make docs-pages ONLY={page}` writes it again"
    assert committed == TOOL.page(page), ways


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
def test_a_topic_has_a_drawing_and_the_recordings_that_its_lesson_makes_today(lesson):
    page = TOOL.DOCS / f"learn/{lesson.name}.md"
    assert f"(../assets/diagrams/idea-{lesson.name}.svg)" in page.read_text(encoding="utf-8")
    for name, make in TOOL.played(lesson).files.items():
        if name.endswith(".jsonl"):  # pictures take minutes
            committed = (TOOL.DOCS / "assets" / name).read_text(encoding="utf-8")
            assert committed == make(), f"`make docs-pages ONLY={lesson.number}` writes it again"


def test_the_page_of_the_playground_counts_the_exercises_that_it_checks():
    page = (TOOL.DOCS / "playground.md").read_text(encoding="utf-8")
    assert f"no tensors, {len(exercises_here())} of {len(exercises())}." in page


def test_every_metric_is_in_the_tables_of_the_page_on_observability_with_its_meaning():
    page = (TOOL.DOCS / "use/observability.md").read_text(encoding="utf-8")
    metrics = EngineMetrics(read_recorded_run(TOOL.DOCS / SPECULATION).header)
    for family in metrics.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        meaning = family.documentation.rstrip(".")
        row = rf"\| `{name}` \| {re.escape(meaning)}\.? \|"
        assert name.startswith("process_") or re.search(row, page, re.IGNORECASE), name


def test_every_environment_variable_that_the_code_reads_is_on_the_page_of_configuration():
    page = (TOOL.DOCS / "use/configuration.md").read_text(encoding="utf-8")
    root, names = TOOL.DOCS.parent, set()
    for file in (
        path
        for room in ("minivllm", "kernels", "tui", "lessons")
        for path in (root / room).rglob("*.py")
    ):
        # The peers' side runs in another engine's process, and sets variables of that engine.
        if "peer_side" not in file.parts:
            names |= {a or b for a, b in READ.findall(file.read_text(encoding="utf-8"))}
    assert len(names) > 10
    assert {name for name in names if f"`{name}`" not in page} == set()
