"""Reads the rows of characters from an SVG drawn by `minivllm shot`."""

import re
from xml.etree import ElementTree

from rich.cells import cell_len

SVG = "{http://www.w3.org/2000/svg}"
CELL = 12.2  # Width of a character in the picture's units.


def texts_of(svg: str) -> list[ElementTree.Element]:
    """Every text of the terminal, without the window title and line ends."""
    texts = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return [node for node in texts if "clip-path" in node.attrib and node.text.strip("\n")]


def rows_of(svg: str) -> list[str]:
    """The terminal's rows from top to bottom, without trailing blanks."""
    rows: dict[int, str] = {}
    for node in texts_of(svg):
        number = int(re.search(r"-line-(\d+)", node.get("clip-path"))[1])
        row = rows.get(number, "")
        column = round(float(node.get("x")) / CELL)
        rows[number] = row + " " * (column - cell_len(row)) + node.text.replace("\xa0", " ")
    return [rows.get(number, "").rstrip() for number in range(max(rows) + 1)]
