"""A lesson as Markdown, made by playing it: for `--transcript`, and for its page on the site.

The engine's answer, the comments on wrong guesses and the picture are folded under a question, so
that a reader who scrolls does not see them.
"""

import re

from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.script import AskedQuestion
from minivllm.lessons.teacher.words import page_picture
from minivllm.text import clean
from minivllm.tui.lesson import Page

_KEPT = re.compile(r"(`+.*?`+|\*\*)", re.DOTALL)
_SPECIAL = re.compile(r"([\\*\[\]{}|]|(?<!\w)_|_(?!\w))")
_OPENS_BLOCK = re.compile(r"^(\d+(?=[.)] )|(?=[-+] |[#>]))")


def escaped(text: str) -> str:
    """A text as one line of Markdown, in which `` `this` `` is a name and `**this**` is emphasized.

    All other characters that Markdown would interpret are escaped: some texts are from a model.
    """
    pieces = _KEPT.split(clean(text))
    pieces[::2] = [_SPECIAL.sub(r"\\\1", piece).replace("<", "&lt;") for piece in pieces[::2]]
    return _OPENS_BLOCK.sub(r"\1\\", "".join(pieces))


class Transcript:
    """Call `write` once, with a player at its first page."""

    def __init__(self, player: LessonPlayer) -> None:
        self.player = player
        self._engine: str | None = None
        self._sections: set[str] = set()
        self._last_rows: list[str] = []
        self._has_folded_claims = False

    # ---- what the site shows in another form ----

    def boxed(self, title: str, body: str, folded: str) -> str:
        fold = f"<details><summary>The engine’s answer</summary>\n\n{folded}\n</details>\n"
        return f"**{title}** {body}\n{fold}"

    def figure(self, page: Page) -> list[str]:
        return ["\n".join(["```text", *page.figure, "```", ""])] if page.figure else []

    def picture(self, page: Page, rows: list[str]) -> list[str]:
        """The picture of a page, if it is a new one."""
        title = f"{rows[0]} ({page.engine})" if page.engine else rows[0]
        return ["\n".join(["```text", title, *rows[1:], "```", ""])]

    # ---- the lesson ----

    def write(self) -> str:
        """All pages, except the final page with the score."""
        player, parts = self.player, []
        while not player.over:
            page = player.page
            # A page's claims were checked before the page, so they belong to the last section. After
            # a question they give its answer away, so they are folded with it.
            if not self._has_folded_claims:
                parts += _claims(page)
            self._has_folded_claims = False
            parts += self._section(page)
            if page.asks:
                parts.append(self._question(page))
            else:
                parts += [f"{escaped(page.text)}\n", *self.figure(page), *self._new_picture(page)]
                player.pass_over()
        return "\n".join(parts)

    def _section(self, page: Page) -> list[str]:
        if page.engine == self._engine:
            return []
        self._engine = page.engine
        title = page.engine or "the lesson"
        again = ", again" if title in self._sections else ""
        self._sections.add(title)
        return [f"## {title[:1].upper()}{title[1:]}{again}\n"]

    def _question(self, page: Page) -> str:
        """The question. The next page, with the engine's answer, is folded under it."""
        player = self.player
        player.pass_over()
        answer = player.page
        # An engine that first appears in the answer starts no section, because it is folded.
        self._engine = answer.engine
        answered = [
            *_claims(answer),
            f"{escaped(answer.text)}\n",
            *_misconceptions(player.questions[-1]),
        ]
        answered += self._new_picture(answer)
        if not player.over:
            player.forward()
        if not player.over:
            answered += _claims(player.page)
            self._has_folded_claims = True
        choices = [f"{number}. {escaped(choice)}" for number, choice in enumerate(page.choices, 1)]
        text = "\n".join([f"{escaped(page.text)}\n", *choices, *([""] if choices else [])])
        return self.boxed("What do you expect?", text, "\n".join(answered))

    def _new_picture(self, page: Page) -> list[str]:
        rows = page_picture(page)
        if not rows or [page.engine, *rows] == self._last_rows:
            return []
        made = self.picture(page, rows)
        self._last_rows = [page.engine, *rows] if made else self._last_rows
        return made


def _claims(page: Page) -> list[str]:
    claims = "".join(f"- {escaped(claim)}\n" for claim in page.claims)
    return ["Checked on the engine when this page was built:\n", claims] if claims else []


def _misconceptions(question: AskedQuestion) -> list[str]:
    lines = [f"- **{escaped(given)}**: {escaped(why)}" for given, why in question.wrong_answers]
    if question.asked.otherwise:
        other = "another answer" if question.asked.choices else "another number"
        lines.append(f"- **{other}**: {escaped(question.asked.otherwise)}")
    return ["If you expected\n", "\n".join(lines) + "\n"] if lines else []
