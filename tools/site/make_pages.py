#!/usr/bin/env python3
"""Writes the pages of the docs that are made from the code; `make docs-pages` does the same.

    tools/site/make_pages.py                           # all pages, in place
    tools/site/make_pages.py --only use/cli.md         # only this page; --only can be repeated
    tools/site/make_pages.py --out /tmp/pages          # in another folder than docs/

Without --only, the events that the summaries quote are taken again from the recordings.

The pages are committed, and tests/more/docs/test_pages_are_fresh.py compares them with newly made pages.
So the text of a page must not depend on the machine.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cli_reference
import configuration_reference
import events_reference
import metrics_reference
import quoted_events
import ways

from minivllm.lessons.site.markdown import with_region
from minivllm.tui.keys.commands import key_tables

DOCS = Path(__file__).resolve().parents[2] / "docs"


def dashboard_page() -> str:
    """docs/start/dashboard.md: all but the tables of keys is written by hand."""
    text = (DOCS / "start/dashboard.md").read_text(encoding="utf-8")
    return with_region(text, "keys", key_tables())


PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "inside/architecture.md": ways.page,
        "use/cli.md": cli_reference.page,
        "use/configuration.md": configuration_reference.page,
        "inside/events.md": events_reference.page,
        "start/dashboard.md": dashboard_page,
        "use/observability.md": metrics_reference.page,
    }
)
"""Path of a page below docs/ -> function that makes its text."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Write the docs pages that are generated from the code."
    )
    parser.add_argument("--out", type=Path, default=DOCS, metavar="FOLDER", help="(default: docs)")
    parser.add_argument(
        "--only", choices=tuple(PAGES), action="append", help="(default: all of them)"
    )
    args = parser.parse_args()
    for name in args.only or PAGES:
        path = args.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGES[name](), encoding="utf-8")
    if not args.only:
        quoted_events.refresh_pages(DOCS)


if __name__ == "__main__":
    main()
