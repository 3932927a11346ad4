"""A lesson in any terminal or pipe: text, the highlighted panel as plain characters, questions.

At the end of the input, the lesson continues without answers, as with `--auto`.
"""

import textwrap
from collections.abc import Callable
from typing import TextIO

from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.words import WIDTH, page_picture, without_marks
from minivllm.tui.draw.lines import wrap
from minivllm.tui.draw.portable import to_ascii
from minivllm.tui.lesson import Page

HELP = "enter: go on   b: back   q: leave"


class PlainLesson:
    """Reads `answers` line by line. `show` must write its text at once."""

    def __init__(
        self,
        player: LessonPlayer,
        answers: TextIO,
        show: Callable[[str], object],
        *,
        auto: bool,
        ascii: bool,
    ) -> None:
        self._player = player
        self._answers = answers
        self._write = show
        self._auto = auto
        self._ascii = ascii
        self._last_picture: list[str] = []

    def run(self) -> None:
        player = self._player
        self._print(f"{player.title}\n{'=' * len(player.title)}\n")
        if not self._auto:
            self._print(f"({HELP})\n")
        self._show(player.page)
        while not (player.over and player.at_newest):
            typed = "" if self._auto else self._ask()
            if typed.strip() == "q":
                return
            before = player.page.number
            if trouble := self._move(typed):
                self._print(f"{trouble}\n")
            if player.page.number != before:
                self._show(player.page)

    def _move(self, typed: str) -> str | None:
        if self._auto:
            return self._player.pass_over()
        if typed.strip() == "b":
            return self._player.back()
        return self._player.answer(typed) if self._player.page.waits else self._player.forward()

    def _ask(self) -> str:
        """Read a line; the end of the input turns on `--auto`."""
        self._print("your guess> " if self._player.page.waits else "> ", end="")
        line = self._answers.readline()
        if not line:
            self._print("")
            self._auto = True
        return line.removesuffix("\n")

    def _show(self, page: Page) -> None:
        for claim in page.claims:  # they are about what was shown before this page
            self._print(textwrap.fill(f"✓ checked: {claim}", WIDTH, subsequent_indent="  "))
        if page.claims:
            self._print("")
        rows = page_picture(page)
        if rows != self._last_picture:
            self._last_picture = rows
            which = f" ({page.engine})" if page.engine else ""
            for row in [f"{title}{which}" for title in rows[:1]] + rows[1:]:
                self._print(f"  | {row}".rstrip())
            self._print("")
        mark = "? " if page.asks else {True: "✓ ", False: "✗ ", None: ""}[page.right]
        for row in wrap(mark + without_marks(page.text), WIDTH):
            self._print(row)
        for row in page.figure:
            self._print(f"    {row}")
        for number, choice in enumerate(page.choices, 1):
            self._print(f"    {number}  {choice}")
        self._print("")

    def _print(self, text: str, end: str = "\n") -> None:
        self._write((to_ascii(text) if self._ascii else text) + end)
