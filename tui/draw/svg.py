"""A picture of the dashboard as a file: what Textual exports, made to stand alone.

Textual's own pictures load their font from another host. The easy thing to get wrong is the blanks at the ends of a text:
some programs that are no browsers drop them unless they are told to keep them, and then columns no longer meet.
"""

import re

_REMOTE_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def standalone(svg: str) -> str:
    """The picture without fonts from elsewhere: whoever shows it uses a monospaced font of their own."""
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return _REMOTE_FONTS.sub("", svg).replace("Fira Code", "ui-monospace")
