"""Wrap text at words, measured in terminal cells. The text's own line breaks are kept.

`wrap_tail` is for a text that grows word by word. It wraps only the end of the text; the place
where this end begins moves rarely, so that rows do not jump.
"""

from rich.cells import cell_len, chop_cells

from minivllm.text import LONGEST_TEXT, clean


def wrap(text: str, width: int) -> list[str]:
    """Wrap `text` into rows of at most `width` cells, and drop control characters."""
    if width <= 0:
        return []
    return [row for part in text.split("\n") for row in _wrap_line(clean(part), width)]


def wrap_tail(text: str, width: int, height: int) -> list[str]:
    """The last `height` rows of the wrapped text, after an ellipsis if text is left out."""
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
        # Break a word that is wider than a row; drop a character that is.
        *full, row = [piece for piece in chop_cells(word, width) if cell_len(piece) <= width] or [
            ""
        ]
        rows += full
    return [*rows, row]
