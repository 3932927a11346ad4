#!/usr/bin/env python3
"""Writes the pages of the docs that are made from the code; `make docs-pages` does the same.

    tools/site/make_pages.py                           # all pages, in place
    tools/site/make_pages.py --only reference/cli.md   # only this page; --only can be repeated
    tools/site/make_pages.py --out /tmp/pages          # in another folder than docs/

Without --only, the events that the concept pages quote are taken again from the recordings.

The pages are committed, and tests/docs/test_pages_are_fresh.py compares them with newly made pages.
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

from minivllm.tui.keys import commands

DOCS = Path(__file__).resolve().parents[2] / "docs"

PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "architecture.md": ways.page,
        "reference/cli.md": cli_reference.page,
        "reference/configuration.md": configuration_reference.page,
        "reference/events.md": events_reference.page,
        "reference/keys.md": commands.page,
        "reference/metrics.md": metrics_reference.page,
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
