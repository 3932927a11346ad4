"""Large figures: three rows of half blocks, to be read from the back of a room."""

_FONT = {
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71122", "8": "75757", "9": "75717", ".": "00002", "×": "00525",
}  # fmt: skip
"""Five rows of three dots each, as bits."""
_DOTS = {"00": " ", "10": "▀", "01": "▄", "11": "█"}


def large(figure: str) -> list[str]:
    """Digits, points and × in three rows, each sign four cells wide."""
    rows = ["".join(f"{int(_FONT[sign][row]):03b}0" for sign in figure) for row in range(5)]
    pairs = zip(rows[::2], [*rows[1::2], "0" * len(rows[0])], strict=True)
    return ["".join(_DOTS[top + low] for top, low in zip(*pair, strict=True)) for pair in pairs]
