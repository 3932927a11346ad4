"""The figures in README are true, and README.zh.md says the same."""

import re
import subprocess

import pytest
from support.docs.built_site import DOCS, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```.*?\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def tables_under(heading: str) -> list[list[list[str]]]:
    """The tables of a section of README, without their heads: each row as its cells."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
        for table in re.findall(r"(?:^\|.*\n)+", section, flags=re.MULTILINE)
    ]


def test_the_engine_has_as_many_lines_as_readme_says():
    (command,) = re.findall(r"`(find [^`]*)`", README)
    counted = subprocess.check_output(["bash", "-c", command], cwd=ROOT, text=True)
    rows = {row[0]: row[1] for row in tables_under("What is different here")[0]}
    assert abs(int(counted) - int(rows["lines of the engine"].replace(",", ""))) < 500, (
        f"write {counted} in README.md"
    )


def measured_rows() -> list[tuple[str, str, str]]:
    """What README says that it measured: the row's name, its figures, and the command."""
    ratios, others = tables_under("Numbers")
    of_peers = [(row[0], " ".join(row[1:]), "minivllm bench throughput") for row in ratios]
    # `make soak`, `minivllm bench core`: the command without its options.
    named = [" ".join(row[2].strip("`").split()[:3]).split(" --")[0] for row in others]
    return of_peers + [(row[0], row[1], name) for row, name in zip(others, named, strict=True)]


@pytest.mark.parametrize(("what", "figures", "command"), measured_rows())
def test_each_figure_is_in_a_section_with_its_command(what, figures, command):
    pages = "".join(
        (DOCS / name).read_text(encoding="utf-8")
        for name in ("use/performance.md", "use/reliability.md")
    )
    sections = re.split(r"^##+ ", pages, flags=re.MULTILINE)
    # README's 0.6 may be 0.62 there.
    patterns = [rf"(?<![\d.,]){re.escape(one)}" for one in re.findall(r"\d[\d.,]*\d|\d", figures)]
    assert any(
        command in section and all(re.search(pattern, section) for pattern in patterns)
        for section in sections
    )


def facts(page: str) -> dict[str, list[str]]:
    """What no translation changes: commands, names in code, links, and the figures of tables."""
    prose = FENCE.sub("", page)
    rows = [line for line in prose.splitlines() if line.startswith("|")]
    return {
        "commands": [
            line.partition("#")[0].strip()
            for block in FENCE.findall(page)
            for line in block.splitlines()
            if line.startswith(("make", "PIP", "llm", "for", "from", "    print"))
        ],
        "code": sorted(re.findall(r"`([^`\n]+)`", prose)),
        "links": re.findall(r"\]\((?!README)([^)]+)\)", prose),
        "figures": [number for row in rows for number in re.findall(r"\d[\d.,]*\d|\d", row)],
        "cells": [str(row.count("|")) for row in rows],
    }


@pytest.mark.parametrize("kind", ["commands", "code", "links", "figures", "cells"])
def test_the_chinese_readme_has_the_same(kind):
    assert facts(README)[kind]
    assert facts(CHINESE)[kind] == facts(README)[kind]
