"""README's counts are true, and its measurements appear in the pages that explain them."""

import re
import subprocess

from support.docs.built_site import DOCS, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def rows_under(heading: str) -> list[list[str]]:
    """Table rows of a section, without headers: each row as its cells."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line[:1] == "|"
    ]
    return [row for row in rows[1:] if not row[0].startswith("---")]


def test_the_line_count_of_the_engine_is_what_the_command_beside_it_prints() -> None:
    (command,) = re.findall(r"`(find [^`]*)`", README)
    counted = subprocess.check_output(["bash", "-c", command], cwd=ROOT, text=True)
    rows = {row[0]: row[1] for row in rows_under("What is different here")}
    (told,) = [rows[name] for name in rows if name.startswith("lines of the engine")]
    assert abs(int(counted) - int(told.replace(",", ""))) < 500, f"say {counted} in README.md"


def test_every_row_of_numbers_is_in_a_section_that_has_its_command() -> None:
    pages = "".join(
        (DOCS / name).read_text(encoding="utf-8") for name in ("performance.md", "reliability.md")
    )
    sections = re.split(r"^##+ ", pages, flags=re.MULTILINE)
    rows = rows_under("Numbers")
    assert len(rows) >= 6
    for what, measured, command in rows:
        # such as `make soak` or `minivllm bench core`
        name = " ".join(command.strip("`").split()[:3]).split(" --")[0]
        numbers = re.findall(r"\d[\d.,]*\d|\d", measured)
        # 0.6 may appear there as 0.62: more digits can follow, but not precede.
        found = [
            all(re.search(rf"(?<![\d.,]){re.escape(one)}", text) for one in numbers)
            for text in sections
        ]
        assert any(here and name in text for here, text in zip(found, sections, strict=True)), what
