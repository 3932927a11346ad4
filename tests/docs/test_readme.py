"""What README counts is so, and what it measures stands in the pages that say how."""

import itertools
import re
import subprocess

import pytest
from support.docs.built_site import DOCS, ROOT

from minivllm.cli import main

README = (ROOT / "README.md").read_text(encoding="utf-8")


def rows_under(heading: str) -> list[list[str]]:
    """The tables of a section, without their heads: each row as its cells."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line[:1] == "|"
    ]
    return [row for row in rows[1:] if not row[0].startswith("---")]


def test_the_lines_of_the_engine_are_as_many_as_the_command_beside_them_counts() -> None:
    (command,) = re.findall(r"`(find [^`]*)`", README)
    counted = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    (told,) = [
        row[1]
        for row in rows_under("What is different here")
        if row[0].startswith("lines of the engine")
    ]
    assert abs(int(counted) - int(told.replace(",", ""))) < 500, (
        f"it counts {counted.strip()}: say so in README.md"
    )


def test_every_row_of_numbers_stands_in_a_section_that_has_its_command() -> None:
    pages = "".join(
        (DOCS / name).read_text(encoding="utf-8") for name in ("performance.md", "reliability.md")
    )
    sections = re.split(r"^##+ ", pages, flags=re.MULTILINE)
    rows = rows_under("Numbers")
    assert len(rows) >= 6
    for what, measured, command in rows:
        # `make soak`, `minivllm bench core`
        name = " ".join(command.strip("`").split()[:3]).split(" --")[0]
        numbers = re.findall(r"\d[\d.,]*\d|\d", measured)
        # 0.6 is there as 0.62: digits may follow, and none may stand before.
        found = [
            all(re.search(rf"(?<![\d.,]){re.escape(one)}", text) for one in numbers)
            for text in sections
        ]
        assert any(here and name in text for here, text in zip(found, sections, strict=True)), (
            what,
            name,
            numbers,
        )


def code_in(page: str) -> str:
    """The code of a Markdown page: its fenced blocks, then its inline spans, one a line."""
    text = (ROOT / page).read_text(encoding="utf-8")
    fence = re.compile(r"^```.*?\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
    return "\n".join([*fence.findall(text), *re.findall(r"`([^`\n]+)`", fence.sub("", text))])


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_a_page_names_exists(page: str) -> None:
    targets = set(
        re.findall(
            r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
        )
    )
    named = set(
        re.findall(r"(?:^|\s)make (?:[A-Z]+=\S+ )*([a-z-]+)", code_in(page), flags=re.MULTILINE)
    )
    assert named, f"{page} names no target"
    assert sorted(named - targets) == []


def test_every_command_that_the_readme_names_is_understood(
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands = re.findall(r"^minivllm (.+)$", code_in("README.md"), flags=re.MULTILINE)
    options_of: dict[tuple[str, ...], set[str]] = {}
    for command in commands:
        words = command.split()
        # `bench throughput --workload W`: lower case is typed as it stands, and the rest is the
        # reader's.
        subcommand = tuple(
            itertools.takewhile(str.islower, (word for word in words if not word.startswith("--")))
        )
        options_of.setdefault(subcommand, set()).update(
            word for word in words if word.startswith("--")
        )
    assert len(options_of) >= 7
    for subcommand, options in options_of.items():
        assert main([*subcommand, "--help"]) == 0
        told = capsys.readouterr().out
        assert sorted(option for option in options if option not in told) == []
