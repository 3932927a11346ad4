"""The user's selection: a sequence, a block, a step or an event. All panels share it.

The style name of a drawn span contains its `Target` (see `lines`), so a click finds what was drawn
there. Only the first colon of a target's text separates: ids from outside can contain colons.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

TargetKind = Literal["sequence", "block", "step", "event", "token"]


class Target(NamedTuple):
    kind: TargetKind
    key: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"

    @classmethod
    def parse(cls, text: str) -> "Target | None":
        """The inverse of `str`; None if the text is not a target."""
        kind, _, key = text.partition(":")
        return cls(kind, key) if kind in get_args(TargetKind) else None


def sequence(seq_id: str) -> Target:
    return Target("sequence", seq_id)


def block(block_id: int) -> Target:
    return Target("block", str(block_id))


def step(number: int) -> Target:
    return Target("step", str(number))


def event(seq: int) -> Target:
    return Target("event", str(seq))


def token(seq_id: str, position: int) -> Target:
    """A token of a sequence, by its index in the sequence; choosing it selects the sequence."""
    return Target("token", f"{position}:{seq_id}")


@dataclass(slots=True)
class Selection:
    """At most one target of each kind."""

    seq_id: str | None = None
    block_id: int | None = None
    step: int | None = None
    event_seq: int | None = None
    position: int | None = None
    """Of a token in the selected sequence; None for its newest token."""
    last: Target | None = None

    def choose(self, target: Target) -> None:
        self.last = target
        match target.kind:
            case "sequence":
                if self.seq_id != target.key:
                    self.position = None
                self.seq_id = target.key
            case "block":
                self.block_id = int(target.key)
            case "step":
                self.step = int(target.key)
            case "event":
                self.event_seq = int(target.key)
            case "token":
                position, _, self.seq_id = target.key.partition(":")
                self.position = int(position)

    def clear(self) -> None:
        self.seq_id = self.block_id = self.step = self.event_seq = None
        self.position = self.last = None

    def holds(self, target: Target) -> bool:
        match target.kind:
            case "sequence":
                return self.seq_id == target.key
            case "block":
                return str(self.block_id) == target.key
            case "step":
                return str(self.step) == target.key
            case "event":
                return str(self.event_seq) == target.key
            case "token":
                return f"{self.position}:{self.seq_id}" == target.key
