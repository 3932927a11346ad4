"""`Finding`: what one check found, and what to do about it."""

from typing import Literal, NamedTuple

State = Literal["ok", "note", "bad"]


class Finding(NamedTuple):
    name: str
    state: State
    """`note`: the course works, with limits; `bad`: it does not work."""
    text: str
    """What was found, and for `note` and `bad` also what to do."""


def ok(name: str, text: str) -> Finding:
    return Finding(name, "ok", text)


def advice(name: str, text: str) -> Finding:
    return Finding(name, "note", text)


def bad(name: str, text: str) -> Finding:
    return Finding(name, "bad", text)
