"""Text from outside over several rows: wrapped at words, measured in cells, its own line breaks
kept.

Knows nothing of panels. The easy thing to get wrong is a text that grows by a word at a time and is
longer than anybody can see: only its end is wrapped, cut at a place that stays where it is while
the text grows, so that the rows do not dance.
"""

from rich.cells import cell_len, chop_cells

from minivllm.text import LONGEST_TEXT, clean


def wrap(text: str, width: int) -> list[str]:
    """`text` in rows of at most `width` cells, without anything that a terminal would obey."""
    if width <= 0:
        return []
    return [row for part in text.split("\n") for row in _wrap_line(clean(part), width)]


def wrap_tail(text: str, width: int, height: int) -> list[str]:
    """The last `height` rows of `wrap`; what is above them is told by an ellipsis."""
    most = LONGEST_TEXT * max(-(-2 * width * height // LONGEST_TEXT), 1)
    cut = 0
    if len(text) > 2 * most:
        cut = (len(text) // most - 1) * most
    rows = wrap(text[cut:], width)
    if not cut and len(rows) <= height:
        return rows
    rows = rows[-height:] if height > 0 else []
    return [_with_ellipsis(rows[0], width), *rows[1:]] if rows else []


def _with_ellipsis(row: str, width: int) -> str:
    row = "…" + row
    return row if cell_len(row) <= width else chop_cells(row, width)[0]


def _wrap_line(text: str, width: int) -> list[str]:
    rows, row = [], ""
    for word in text.split(" "):
        longer = f"{row} {word}" if row else word
        if cell_len(longer) <= width:
            row = longer
            continue
        if row:
            rows.append(row)
        # A word that no row can hold is broken; a character wider than the row stands for nothing
        # there.
        *full, row = [piece for piece in chop_cells(word, width) if cell_len(piece) <= width] or [
            ""
        ]
        rows += full
    return [*rows, row]
