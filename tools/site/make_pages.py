#!/usr/bin/env python3
"""Writes what pages of the docs show of the code; `make docs-pages` does the same.

    tools/site/make_pages.py                           # all pages, in place
    tools/site/make_pages.py use/cli.md                # only this page

A page is written by hand, but for its regions, each between two comments. The pages are committed,
and tests/more/docs/test_pages_are_fresh.py compares them with newly made ones. So a region must not
depend on the machine.
"""

import sys
from functools import partial
from inspect import getsource
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cli_reference
import configuration_reference
import events_reference
import metrics_reference

from minivllm.engine.core import EngineCore
from minivllm.lessons.site.markdown import with_region
from minivllm.tui.keys.commands import key_tables

DOCS = Path(__file__).resolve().parents[2] / "docs"


def step_of_the_engine() -> str:
    return f"<!-- not run: part of a module -->\n```python\n{getsource(EngineCore)}```"


PAGES = {
    "inside/architecture.md": {"step": step_of_the_engine},
    "use/cli.md": {"commands": cli_reference.commands},
    "use/configuration.md": {
        cls.__name__: partial(configuration_reference.fields_and_refusals, cls)
        for cls in configuration_reference.TOGETHER
    },
    "inside/events.md": {
        "meta": events_reference.meta,
        "envelope": events_reference.envelope,
        "kinds": events_reference.kinds,
    },
    "start/dashboard.md": {"keys": key_tables},
    "use/observability.md": {"metrics": metrics_reference.tables_of_metrics},
}
"""Path of a page below docs/ -> name of a region -> function that makes its text."""


def page(name: str) -> str:
    text = (DOCS / name).read_text(encoding="utf-8")
    for region, make in PAGES[name].items():
        content = make().strip("\n")
        text = with_region(text, region, f"\n{content}\n\n")
    return text


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PAGES:
        (DOCS / chosen).write_text(page(chosen), encoding="utf-8")
