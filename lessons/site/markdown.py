"""Words of a lesson as Markdown for the site.

A lesson marks two things, `**this**` and `` `this` ``; all else in it is plain text, and some of it
was written by a model. The easy thing to get wrong is text that only looks like a mark:
`<|im_start|>` would vanish as a tag, and stars in a formula would make half a sentence slanted.
"""

import re
from textwrap import indent

from minivllm.text import clean

_MARKS = re.compile(r"`[^`]+`|\*\*")
_SPECIAL = re.compile(r"([\\*_{}\[\]<>#|~^!$])")
_OPENS_LIST = re.compile(r"^(\d+)([.)] )|^([-+] )")


def to_markdown(text: str) -> str:
    """A lesson's text, on one line."""
    text = clean(text)
    parts, end = [], 0
    for mark in _MARKS.finditer(text):
        parts += [_plain(text[end : mark.start()]), mark[0]]
        end = mark.end()
    parts.append(_plain(text[end:]))
    return _OPENS_LIST.sub(
        lambda match: f"{match[1]}\\{match[2]}" if match[1] else f"\\{match[3]}", "".join(parts)
    )


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def boxed(kind: str, title: str, body: str, *, folded: bool = False) -> str:
    """An admonition, which opens at a click if it is `folded`."""
    return f'{"???" if folded else "!!!"} {kind} "{title}"\n\n{indent(body.rstrip(), "    ")}\n'


def attribute(text: str) -> str:
    """Text that stands between the brackets of a picture, on one line."""
    return _plain(clean(text))
