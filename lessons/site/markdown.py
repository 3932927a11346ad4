"""Lesson text as Markdown for the site.

The only marks in a lesson are `**this**` and `` `this` ``. All other text, some of it from a model,
is plain and must be escaped: otherwise `<|im_start|>` would vanish as a tag, and the stars in a
formula would set half a sentence in italics.
"""

import re
from textwrap import indent

from minivllm.text import clean

_MARKS = re.compile(r"`[^`]+`|\*\*")
_SPECIAL = re.compile(r"([\\*_{}\[\]<>#|~^!$])")
_OPENS_LIST = re.compile(r"^(\d+)([.)] )|^([-+] )")


def with_region(page: str, name: str, content: str) -> str:
    """Replace what is between the two marks of a region in a page written by hand."""
    begin, end = f"<!-- made from the code: {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"The page has no region {name}: it needs the lines {begin}and {end}.")
    return f"{before}{begin}{content}{end}{after}"


def to_markdown(text: str) -> str:
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
    """An admonition; if `folded`, a click opens it."""
    return f'{"???" if folded else "!!!"} {kind} "{title}"\n\n{indent(body.rstrip(), "    ")}\n'


def attribute(text: str) -> str:
    return _plain(clean(text))
