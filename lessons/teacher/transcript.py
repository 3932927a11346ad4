"""A whole lesson as one Markdown page, made by running it.

A model's text can look like Markdown, so pictures are in code blocks and their rows are cleaned.
"""

from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.words import page_picture
from minivllm.text import clean
from minivllm.tui.lesson import Page


def transcript(player: LessonPlayer) -> str:
    parts, drawn = [f"# {player.title}\n"], []
    while True:
        rows = page_picture(player.page)
        parts.append(_page(player.page, rows if rows != drawn else []))
        if player.over:
            return "\n".join(parts)
        drawn = rows
        player.pass_over()


def _page(page: Page, rows: list[str]) -> str:
    parts = []
    if rows:
        title = f"{rows[0]} ({page.engine})" if page.engine else rows[0]
        parts.append("\n".join(["```text", title, *rows[1:], "```", ""]))
    parts += [f"- ✓ {claim}" for claim in page.claims]
    if page.claims:
        parts.append("")
    text = clean(page.text)
    parts.append(f"> **Your guess?** {text}\n" if page.asks else f"{text}\n")
    if page.figure:
        parts.append("\n".join(["```text", *page.figure, "```", ""]))
    if page.choices:
        parts.append(
            "\n".join(f"> {number}. {choice}" for number, choice in enumerate(page.choices, 1))
            + "\n"
        )
    return "\n".join(parts)
