"""The event lines on the pages of topics are lines of the committed recordings."""

import json
from pathlib import Path

import pytest
from support.tool_modules import load_tool

DOCS = Path(__file__).parents[2] / "docs"
TOOL = load_tool("site/quoted_events.py")
PAGES = [page for page in (DOCS / "summaries").glob("*.md") if '\n{"ev"' in page.read_text()]


@pytest.fixture(scope="module")
def recorded() -> list[str]:
    return TOOL.recorded_lines(DOCS / "assets/recordings")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_quoted_event_is_in_a_recording(page: Path, recorded: list[str]) -> None:
    missing = set(TOOL.quoted_lines(page.read_text())) - set(recorded)
    assert not missing, "`make docs-pages` takes the lines again, or says which need a look."


def test_a_quote_follows_its_number_but_not_a_changed_decision(recorded: list[str]) -> None:
    line = next(line for line in recorded if '"block.allocated"' in line)
    event = json.loads(line)

    def page(**changed: int) -> str:
        return json.dumps(event | changed, separators=(",", ":"))

    assert TOOL.refreshed(page(seq=10**9), recorded) == (line, [])
    assert TOOL.refreshed(page(seq=10**9, logprob=-1.0), recorded)[1], "another kind of line"
    assert TOOL.refreshed(page(logical=10**9), recorded)[1] == [page(logical=10**9)]
