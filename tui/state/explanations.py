"""`Explanations`: the newest explained token of each watched sequence, and its tokens before that.

Explanations come only for watched sequences (a selected one, key W, `--explain-tokens`). A beam
search has one explanation for all its beams.

A whole explanation takes 1.5 kB, so only the newest one of a sequence is kept. An older token has
the number of its event, which the recording still has.
"""

import math

import msgspec

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.state import SequenceGrammar
from minivllm.text import fit, visible

KEPT = 32
"""How many sequences have explanations; every keyframe contains them all."""
TOKENS_KEPT = 256
"""How many of a sequence's last tokens are kept."""
_LONGEST_PIECE = 24


class JudgedToken(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A token of a text, and how sure the model was of it."""

    position: int
    """In the sequence, prompt included, from 0."""
    token_id: int
    percent: int
    """The model's own probability, before temperature and cuts, in whole percent."""
    event_seq: int | None = None
    """The number of the event that explains it; None if only its log-probability is known."""


class Explanations(msgspec.Struct):
    by_name: dict[str, ev.TokenExplained] = {}
    """Sequence, or request with `.*` for all its beams -> the newest explanation; newest last."""
    judged: dict[str, list[JudgedToken]] = {}
    """Sequence -> its last tokens whose probability is known, oldest first."""
    grammars: dict[str, list[SequenceGrammar]] = {}
    """Sequence -> what its grammar allowed for each of its last watched tokens, oldest first."""

    def keep(self, event: ev.TokenExplained) -> None:
        name = _beams_of(event.seq_id) if event.beams else event.seq_id
        self.by_name.pop(name, None)
        self.by_name[name] = event
        if len(self.by_name) > KEPT:
            del self.by_name[next(iter(self.by_name))]
        if (chosen := event.chosen) is not None:
            percent = round(100 * chosen.probability)
            token = JudgedToken(event.position, chosen.token_id, percent, event.seq)
            _keep_last(self.judged, event.seq_id, token)

    def keep_grammar(self, event: ev.GrammarState) -> None:
        """The event comes before the token, and in phase stepping before the draw."""
        fields = (getattr(event, name) for name in SequenceGrammar.__struct_fields__)
        _keep_last(self.grammars, event.seq_id, SequenceGrammar(*fields))

    def grammar_at(self, seq_id: str, position: int) -> SequenceGrammar | None:
        """What the grammar allowed for the token at `position`; None if it was not watched."""
        states = reversed(self.grammars.get(seq_id, ()))
        return next((state for state in states if state.position == position), None)

    def keep_logprob(self, fold: Fold, event: ev.TokenSampled) -> None:
        """A token that is not explained can still have a probability. fold: without the token"""
        if event.logprob is None or _is_beam(fold, event.seq_id):
            return
        position, tokens = fold.sequences[event.seq_id].num_tokens, self.judged.get(event.seq_id)
        if not tokens or tokens[-1].position != position:
            percent = round(100 * math.exp(min(event.logprob, 0.0)))
            token = JudgedToken(position, event.token_id, percent)
            _keep_last(self.judged, event.seq_id, token)

    @property
    def last(self) -> ev.TokenExplained | None:
        return next(reversed(self.by_name.values()), None)

    def of(self, seq_id: str) -> ev.TokenExplained | None:
        """The newest explanation of a sequence, or of the beam search that it belongs to."""
        return self.by_name.get(seq_id) or self.by_name.get(_beams_of(seq_id))


def _keep_last(kept: dict[str, list], seq_id: str, token: JudgedToken | SequenceGrammar) -> None:
    """Append to what is kept of a sequence. Of too many sequences, forget the least recent one."""
    tokens = kept.pop(seq_id, [])
    if tokens and tokens[-1].position >= token.position:
        tokens = []  # a new request with the name of an old one
    tokens.append(token)
    del tokens[:-TOKENS_KEPT]
    kept[seq_id] = tokens
    if len(kept) > KEPT:
        del kept[next(iter(kept))]


def refused_favourite(event: ev.TokenExplained) -> ev.TokenCandidate | None:
    """The token that the model itself found most likely, if the grammar refused it."""
    best = max(event.candidates, key=lambda candidate: candidate.logit, default=None)
    return best if best is not None and best.cut_by == "structured_outputs" else None


def _beams_of(seq_id: str) -> str:
    return seq_id.rpartition(".")[0] + ".*"


def piece_of(fold: Fold, token_id: int) -> str:
    """A token as text in quotation marks; as `token 338` if its text is unknown."""
    piece = fold.token_pieces.get(token_id)
    if piece is None:
        return f"token {token_id}"
    piece = visible(piece)
    return f"“{fit(piece, _LONGEST_PIECE) if len(piece) > _LONGEST_PIECE else piece}”"


def _is_beam(fold: Fold, seq_id: str) -> bool:
    """Whether `logprob` is the sum for the whole text. Old recordings do not say: see the names."""
    request = fold.requests[fold.sequences[seq_id].request_id]
    if request.sampling is None:
        return len(request.seq_ids) > 1 or not seq_id.endswith(".0")
    return request.sampling.use_beam_search
