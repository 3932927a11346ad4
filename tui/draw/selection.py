"""The user's selection: a sequence, a block, a step or an event. All panels share it.

A drawn span contains its `Target` (see `lines`), so a click finds what was drawn there.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

TargetKind = Literal["sequence", "block", "host", "step", "event", "token"]


class Target(NamedTuple):
    kind: TargetKind
    key: str | int
    """The id of a sequence (also of a token's), or the number of a block, step or event."""
    position: int | None = None
    """Of a token: its index in the sequence."""


def sequence(seq_id: str) -> Target:
    return Target("sequence", seq_id)


def block(block_id: int) -> Target:
    return Target("block", block_id)


def host_block(number: int) -> Target:
    return Target("host", number)


def step(number: int) -> Target:
    return Target("step", number)


def event(seq: int) -> Target:
    return Target("event", seq)


def token(seq_id: str, position: int) -> Target:
    """A token of a sequence, by its index in the sequence; choosing it selects the sequence."""
    return Target("token", seq_id, position)


@dataclass(slots=True)
class Selection:
    """At most one target of each kind."""

    seq_id: str | None = None
    block_id: int | None = None
    host_block: int | None = None
    step: int | None = None
    event_seq: int | None = None
    position: int | None = None
    """Of a token in the selected sequence; None for its newest token."""
    last: Target | None = None

    def choose(self, target: Target) -> None:
        self.last = target
        if target.kind in ("sequence", "token"):
            if target.kind == "token" or self.seq_id != target.key:
                self.position = target.position
            self.seq_id = target.key
        else:
            setattr(self, _FIELDS[target.kind], target.key)

    def clear(self) -> None:
        self.seq_id = self.block_id = self.host_block = self.step = self.event_seq = None
        self.position = self.last = None

    def held(self, kind: TargetKind) -> Target | None:
        key = getattr(self, _FIELDS[kind])
        return None if key is None else Target(kind, key)

    def holds(self, target: Target) -> bool:
        if target.kind == "token":
            return (self.seq_id, self.position) == target[1:]
        return getattr(self, _FIELDS[target.kind]) == target.key


_FIELDS = {
    "sequence": "seq_id", "block": "block_id", "host": "host_block", "step": "step",
    "event": "event_seq",
}  # fmt: skip
