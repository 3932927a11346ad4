"""What README counts is so, and what it measures stands in the pages that say how."""

import re
import subprocess

from built_site import DOCS, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def rows_under(heading: str) -> list[list[str]]:
    """The tables of a section, without their heads: each row as its cells."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [row for row in rows[1:] if not row[0].startswith("---")]


def test_the_lines_of_the_engine_are_as_many_as_the_command_beside_them_counts() -> None:
    (command,) = re.findall(r"`(find [^`]*)`", README)
    counted = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (told,) = [row[1] for row in rows_under("What is different here") if row[0].startswith("lines of the engine")]
    assert abs(int(counted) - int(told.replace(",", ""))) < 500, f"it counts {counted.strip()}: say so in README.md"


def test_every_measured_number_stands_in_the_page_that_says_how_it_was_measured() -> None:
    pages = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("performance.md", "reliability.md"))
    numbers = [number for row in rows_under("Numbers") for number in re.findall(r"\d[\d.,]*\d|\d", row[1])]
    assert len(numbers) >= 10
    # 0.6 is there as 0.62: digits may follow, and none may stand before.
    assert [number for number in numbers if not re.search(rf"(?<![\d.,]){re.escape(number)}", pages)] == []
