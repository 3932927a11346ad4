"""The generated pages match the code of today, on every machine, without gaps."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from support.tool_modules import load_tool

from minivllm.cli import COMMANDS, build_parser
from minivllm.errors import ConfigError, InvalidSamplingParamsError
from minivllm.events.recording.lines import decode_header, decode_line
from minivllm.events.types import EVENT_KINDS

ROOT = Path(__file__).parents[2]


MAKE_PAGES = ROOT / "tools/site/make_pages.py"
TOOL = load_tool("site/make_pages.py")


def committed(page: str) -> str:
    return (TOOL.DOCS / page).read_text(encoding="utf-8")


def tables(page: str, heading: str) -> list[str]:
    """First cells of the tables under a heading."""
    section = re.split(rf"^##+ {re.escape(heading)}\n", committed(page), flags=re.MULTILINE)[1]
    return re.findall(r"^\| ([^|]+?) \|", re.split(r"^##+ ", section, flags=re.M)[0], re.M)


@pytest.mark.parametrize("page", TOOL.PAGES)
def test_a_page_is_what_the_code_says_today(page):
    assert TOOL.PAGES[page]() == committed(page), (
        f"docs/{page} has fallen behind: `make docs-pages` writes it again."
    )


def test_every_command_and_subcommand_has_a_section_with_all_its_options():
    parsers = []
    for name in COMMANDS:
        waiting = [TOOL.cli_reference._subparser(build_parser(name), name)]
        while waiting:
            parsers.append(parser := waiting.pop())
            if subparsers := TOOL.cli_reference._subparsers_of(parser):
                waiting += subparsers.choices.values()
    assert len(parsers) > 30
    for parser in parsers:
        told = " ".join(tables("use/cli.md", parser.prog))
        section = committed("use/cli.md").split(f"# {parser.prog}\n")[1].split("\n##")[0]
        for title in ("Engine options", "Sampling options"):
            if f"#{title.lower().replace(' ', '-')}" in section:
                told += " ".join(tables("use/cli.md", title))
        # --junit is only refused
        shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
        options = {name for action in shown for name in action.option_strings} - {"-h", "--help"}
        missing = {name for name in options if not re.search(rf"`{name}[ `]", told)}
        assert missing == set(), parser.prog


def test_every_kind_of_event_has_a_section_with_an_example_that_a_reader_takes():
    text = committed("inside/events.md")
    for kind in EVENT_KINDS:
        tag = kind.__struct_config__.tag
        section = text.split(f"### `{tag}`\n")[1].split("\n##")[0]
        line = re.search(r"```json\n(.*)\n```", section)[1].encode()
        _, event = decode_line(line)
        assert type(event) is kind
        fields = {field.name for field in msgspec.structs.fields(kind)} - {"seq", "step", "t"}
        assert {name.strip("`") for name in tables("inside/events.md", f"`{tag}`")} >= fields
    header = re.search(r'\{"ev":"meta".*', text)[0].encode()
    assert decode_header("the page", header).num_blocks == 20


def test_every_refused_combination_on_the_page_is_refused():
    configuration = TOOL.configuration_reference
    for cls, cases in configuration.TOGETHER.items():
        for given in cases:
            with pytest.raises((ConfigError, InvalidSamplingParamsError)):
                cls(**given)


def test_every_metric_of_a_server_is_on_the_page_under_its_scraped_name():
    metrics = TOOL.metrics_reference.EngineMetrics(TOOL.metrics_reference._HEADER)
    scraped = set(re.findall(r"^# TYPE (\S+)", metrics.text().decode(), re.MULTILINE))
    page = committed("use/observability.md")
    assert len(scraped) > 25
    assert {name for name in scraped if f"| `{name}` |" not in page} == set()


def test_no_page_depends_on_the_terminal_the_home_folder_or_the_environment(tmp_path: Path) -> None:
    strange = {"COLUMNS": "23", "HOME": "/home/somebody", "MINIVLLM_EXERCISES": "/else"}
    # it loads a model
    only = [word for page in TOOL.PAGES if "events" not in page for word in ("--only", page)]
    command = [sys.executable, str(MAKE_PAGES), "--out", str(tmp_path), *only]
    subprocess.run(command, env={**os.environ, **strange}, check=True, cwd=tmp_path)
    for page in only[1::2]:
        assert (tmp_path / page).read_text("utf-8") == committed(page), page
