"""Keeps the event lines that pages quote equal to the committed recordings.

A quote that differs only in its number, its time or its measured values is written again.
Any other difference needs a look at the text around it, so it is only reported.
"""

import json
from collections.abc import Iterator
from pathlib import Path

NOT_COMPARED = frozenset({"seq", "t", "mass", "text", "token_id", "logprob"})
"""Fields that may change without making the page's text untrue."""


def refresh_pages(docs: Path) -> None:
    """Write new quotes into the summaries, and print the quotes that need a look."""
    recorded = recorded_lines(docs / "assets/recordings")
    for path in sorted((docs / "summaries").glob("*.md")):
        text, missing = refreshed(path.read_text(encoding="utf-8"), recorded)
        path.write_text(text, encoding="utf-8")
        for quote in missing:
            print(f"{path}: no recording holds this line any more: {quote}")


def recorded_lines(recordings: Path) -> list[str]:
    """The lines of all recordings in a folder and below it."""
    files = sorted(recordings.rglob("*.jsonl"))
    return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def quoted_lines(page: str) -> Iterator[str]:
    """The event lines that a page quotes."""
    return (line for line in page.splitlines() if line.startswith('{"ev"'))


def refreshed(page: str, recorded: list[str]) -> tuple[str, list[str]]:
    """The page with new quotes, and the quotes that no recording holds any more."""
    missing = []
    for quote in quoted_lines(page):
        if quote in recorded:
            continue
        found = _same_event(json.loads(quote), recorded)
        if found is None:
            missing.append(quote)
        else:
            page = page.replace(quote, found)
    return page, missing


def _same_event(quoted: dict, recorded: list[str]) -> str | None:
    marks = (f'"ev":"{quoted["ev"]}"', f'"step":{quoted["step"]},')
    for line in recorded:
        if all(mark in line for mark in marks):
            event = json.loads(line)
            if event.keys() == quoted.keys() and _compared(event) == _compared(quoted):
                return line
    return None


def _compared(event: dict) -> dict:
    return {name: value for name, value in event.items() if name not in NOT_COMPARED}
