"""Reads the rows of characters from an SVG drawn by `minivllm shot`."""

import re
from xml.etree import ElementTree

from rich.cells import cell_len

SVG = "{http://www.w3.org/2000/svg}"
CELL = 12.2
"""Width of a character in the picture's units."""


def texts_of(svg: str) -> list[ElementTree.Element]:
    """Every text of the terminal, without the window title and line ends."""
    texts = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return [one for one in texts if "clip-path" in one.attrib and one.text.strip("\n")]


def rows_of(svg: str) -> list[str]:
    """The terminal's rows from top to bottom, without trailing blanks."""
    rows: dict[int, str] = {}
    for one in texts_of(svg):
        number = int(re.search(r"-line-(\d+)", one.get("clip-path"))[1])
        row = rows.get(number, "")
        column = round(float(one.get("x")) / CELL)
        rows[number] = row + " " * (column - cell_len(row)) + one.text.replace("\xa0", " ")
    return [rows.get(number, "").rstrip() for number in range(max(rows) + 1)]
