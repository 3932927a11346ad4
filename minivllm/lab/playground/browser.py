"""What the page calls: text in, text out, so that nothing of Python's reaches JavaScript.

Files are in the current folder, which belongs to the web worker alone.
"""

import json
from pathlib import Path

from minivllm.lab.playground.methods import core_methods
from minivllm.lab.playground.play import play

HERE = Path()


def methods() -> str:
    """JSON: the core's methods with their source."""
    return json.dumps([method._asdict() for method in core_methods()])


def play_text(question: str) -> str:
    """Answer `play`'s question; both are JSON."""
    return json.dumps(play(json.loads(question), HERE))
