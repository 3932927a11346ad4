"""`Explanations`: the last explained token of each watched sequence, and its tokens as text.

Explanations come only for watched sequences (key W, `--explain-tokens`). A beam search has one
explanation for all its beams.
"""

import msgspec

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.text import fit, visible

KEPT = 32
"""How many sequences have an explanation; every keyframe contains them all."""
_LONGEST_PIECE = 24


class Explanations(msgspec.Struct):
    by_name: dict[str, ev.TokenExplained] = {}
    """Sequence, or request with `.*` for all its beams -> the newest explanation; newest last."""

    def keep(self, event: ev.TokenExplained) -> None:
        name = _beams_of(event.seq_id) if event.beams else event.seq_id
        self.by_name.pop(name, None)
        self.by_name[name] = event
        if len(self.by_name) > KEPT:
            del self.by_name[next(iter(self.by_name))]

    @property
    def last(self) -> ev.TokenExplained | None:
        return next(reversed(self.by_name.values()), None)

    def of(self, seq_id: str) -> ev.TokenExplained | None:
        """The newest explanation of a sequence, or of the beam search that it belongs to."""
        return self.by_name.get(seq_id) or self.by_name.get(_beams_of(seq_id))


def _beams_of(seq_id: str) -> str:
    return seq_id.rpartition(".")[0] + ".*"


def piece_of(fold: Fold, token_id: int) -> str:
    """A token as text in quotation marks; as `token 338` if its text is unknown."""
    piece = fold.token_pieces.get(token_id)
    if piece is None:
        return f"token {token_id}"
    piece = visible(piece)
    return f"“{fit(piece, _LONGEST_PIECE) if len(piece) > _LONGEST_PIECE else piece}”"
