"""Lines that stand for many events: the decodes of a step, and the tokens of a step.

    {"ev":"step.decodes","seq":70,"step":9,"t":2.5,"seq_ids":["a","b"],"num_computed_tokens":[41,7]}
        is step.scheduled of a (event 70) and of b (event 71), one token each

A real vLLM decodes hundreds of sequences in a step of a few milliseconds, so its recorder writes
one such line in place of an event for each (`minivllm.vllm`). Readers expand the lines while they
decode them (`lines.py`), so that only these two files know them.
"""

from typing import Annotated

import msgspec

from minivllm.events.types import Event, StepScheduled, TokenSampled

_Names = Annotated[list[str], msgspec.Meta(min_length=1)]


class StepDecodes(msgspec.Struct, tag_field="ev", tag="step.decodes", gc=False):
    """The plan gives each sequence one token after its prompt: `step.scheduled` for each."""

    seq: int
    """Number of the first event."""
    step: int
    t: float
    seq_ids: _Names
    num_computed_tokens: list[int]

    def events(self) -> list[Event]:
        each = zip(self.seq_ids, self.num_computed_tokens, strict=True)
        return [
            StepScheduled(seq, self.step, self.t, seq_id, 1, "decode", before)
            for seq, (seq_id, before) in enumerate(each, self.seq)
        ]


class TokensSampled(
    msgspec.Struct, tag_field="ev", tag="tokens.sampled", omit_defaults=True, gc=False
):
    """Each sequence gained one token: `token.sampled` for each."""

    seq: int
    """Number of the first event."""
    step: int
    t: float
    seq_ids: _Names
    token_ids: list[int]
    texts: list[str]
    logprobs: list[float | None] = []
    """Empty if no request asked for any."""
    of_step: int | None = None

    def events(self) -> list[Event]:
        logprobs = self.logprobs or [None] * len(self.seq_ids)
        each = zip(self.seq_ids, self.token_ids, self.texts, logprobs, strict=True)
        return [
            TokenSampled(seq, self.step, self.t, *one, self.of_step)
            for seq, one in enumerate(each, self.seq)
        ]


CompactLine = StepDecodes | TokensSampled


def expand(entries: list[Event | CompactLine]) -> list[Event]:
    """The events of decoded lines, in order. Raises `ValueError` if a line's lists differ."""
    if _COMPACT.isdisjoint(map(type, entries)):
        return entries
    return [
        event
        for entry in entries
        for event in (entry.events() if type(entry) in _COMPACT else (entry,))
    ]


_COMPACT = frozenset(CompactLine.__args__)
