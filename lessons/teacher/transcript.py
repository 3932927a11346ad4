"""A whole lesson as one Markdown page, for the docs: made by running it, so that it cannot say what
is not so.

Nobody answers here: after each question stands what the engine said. The easy thing to get wrong is
text from outside: what a model wrote may look like Markdown, so pictures stand in blocks of code
and rows are cleaned before.
"""

from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.words import page_picture
from minivllm.text import clean
from minivllm.tui.lesson import Page


def transcript(player: LessonPlayer) -> str:
    """The rest of the lesson, from the page at hand to its end."""
    parts, drawn = [f"# {player.title}\n"], []
    while True:
        rows = page_picture(player.page)
        parts.append(_page(player.page, rows if rows != drawn else []))
        if player.over:
            return "\n".join(parts)
        drawn = rows
        player.pass_over()


def _page(page: Page, rows: list[str]) -> str:
    """One page, with these rows of its picture."""
    parts = []
    if rows:
        title = f"{rows[0]} ({page.engine})" if page.engine else rows[0]
        parts.append("\n".join(["```text", title, *rows[1:], "```", ""]))
    parts += [f"- ✓ {claim}" for claim in page.claims]
    if page.claims:
        parts.append("")
    text = clean(page.text)
    parts.append(f"> **Your guess?** {text}\n" if page.asks else f"{text}\n")
    if page.choices:
        parts.append(
            "\n".join(f"> {number}. {choice}" for number, choice in enumerate(page.choices, 1))
            + "\n"
        )
    return "\n".join(parts)
