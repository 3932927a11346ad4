"""Drafts and their price, as text drawings for lesson 14."""

import re
from collections.abc import Mapping
from collections.abc import Sequence as Seq

from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.speculation import drafter
from minivllm.text import visible

_COLUMNS = 6
"""Columns for the time of a step with one row."""


def in_words(engine: LessonEngine, token_ids: Seq[int]) -> str:
    """The texts of tokens, each as a name: `·the` `·moon`."""
    return " ".join(f"`{piece}`" for piece in _pieces(engine, token_ids))


def drafts_and_drawn(engine: LessonEngine, drafts: Seq[int], final: Seq[int]) -> tuple[str, ...]:
    """Drafts above the tokens that a step drew.

    final: the accepted drafts and the model's own token; the rows after it are shown as `-`
    """
    unused = ["-"] * (len(drafts) + 1 - len(final))
    columns = list(
        zip([*_pieces(engine, drafts), ""], [*_pieces(engine, final), *unused], strict=True)
    )
    widths = [max(map(len, column)) for column in columns]
    rows = zip(("drafts", "drawn"), zip(*columns, strict=True), strict=True)
    return tuple(
        f"{name:6}  {'  '.join(map(str.ljust, cells, widths))}".rstrip() for name, cells in rows
    )


def measured_step_times() -> dict[int, float]:
    """Rows of a step -> its time over that of one row, from the docstring of `DraftLengths`."""
    rows, times = (
        re.search(rf"^ +{name} +([\d .]+)$", drafter.DraftLengths.__doc__, re.MULTILINE)[1].split()
        for name in ("rows", "time")
    )
    return dict(zip(map(int, rows), map(float, times), strict=True))


def step_times_figure(times: Mapping[int, float]) -> tuple[str, ...]:
    return tuple(
        f"{rows:3} {'row ' if rows == 1 else 'rows'}  {'=' * round(_COLUMNS * time)} {time}"
        for rows, time in times.items()
    )


def _pieces(engine: LessonEngine, token_ids: Seq[int]) -> list[str]:
    decode = engine.engine.tokenizer.decode
    return [visible(decode([one], skip_special_tokens=False)) for one in token_ids]
