"""What the page calls: JSON in, JSON out, so that nothing of Python's reaches JavaScript.

Files are in the current folder, which belongs to the web worker alone.
"""

import json
from pathlib import Path

from minivllm.lab.playground.exercise import check_exercise, exercises_here, start_of
from minivllm.lab.playground.methods import core_methods
from minivllm.lab.playground.play import play

HERE = Path()


def methods() -> str:
    return json.dumps([method._asdict() for method in core_methods()])


def play_text(question: str) -> str:
    return json.dumps(play(json.loads(question), HERE))


def exercises() -> str:
    found = [{"name": own.name, "title": own.title, "level": own.level} for own in exercises_here()]
    return json.dumps(found)


def exercise_text(name: str) -> str:
    return json.dumps(start_of(name))


def check_text(question: str) -> str:
    return json.dumps(check_exercise(**json.loads(question), folder=HERE))
