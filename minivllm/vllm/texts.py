"""`Texts`: names each token before its first use, and adds the text of prompts and answers.

Usually the text of a token does not depend on its neighbours. Only if it ends inside a character,
it waits for the next tokens.
"""

from typing import Any

from minivllm.events import types as ev
from minivllm.events.recording import compact

_INCOMPLETE = "\ufffd"
_MOST_TOKENS = 8  # no character has more


class Texts:
    def __init__(self, tokenizer: Any) -> None:
        """tokenizer: of Hugging Face, or None: all texts are empty"""
        self._decode = tokenizer.decode if tokenizer else lambda token_ids: ""
        self._special = frozenset(tokenizer.all_special_ids if tokenizer else ())
        # Some tokenizers drop the first space of a text, so an ordinary token comes before it.
        self._start = tokenizer.encode("a", add_special_tokens=False)[-1:] if tokenizer else []
        self._prefix = self._decode(self._start)
        self._pieces: dict[int, str] = {}
        self._waiting: dict[str, list[int]] = {}  # its last tokens, which end inside a character
        self._stops: dict[str, tuple[list[str], str]] = {}  # its stop strings, and its text

    def events(self, kind: type, *fields: object) -> list[tuple]:
        """Return the kinds and fields of the events to write for a record."""
        match kind:
            case ev.RequestArrived:
                _, seq_id, _, token_ids, *_, sampling = fields
                if sampling.stop:
                    self._stops[seq_id] = sampling.stop, ""
                prompt = self._decode(token_ids) or None
                return [*self._named(token_ids), (kind, *fields[:6], prompt, *fields[7:])]
            case compact.TokensSampled:
                seq_ids, token_ids, *rest = fields
                named = self._named(token_ids)  # before the texts, which use the names
                return [
                    *named,
                    (kind, seq_ids, token_ids, [*map(self._text, seq_ids, token_ids)], *rest),
                ]
            case ev.RequestFinished | ev.RequestAborted:
                return self._end(kind, *fields)
        return [(kind, *fields)]

    def _named(self, token_ids: list[int]) -> list[tuple]:
        new = sorted(set(token_ids).difference(self._pieces))
        pieces = {token_id: self._decoded([token_id]) for token_id in new}
        self._pieces |= pieces
        return [(ev.TokensNamed, pieces)] if pieces else []

    def _text(self, seq_id: str, token_id: int) -> str:
        """The text that becomes visible with a token."""
        text = "" if token_id in self._special else self._pieces[token_id]
        if _INCOMPLETE in text or seq_id in self._waiting:
            waiting = self._waiting.setdefault(seq_id, [])
            waiting.append(token_id)
            text = self._decoded(waiting)
            if text.endswith(_INCOMPLETE) and len(waiting) < _MOST_TOKENS:
                return ""
            del self._waiting[seq_id]
        if seq_id in self._stops:
            stops, before = self._stops[seq_id]
            self._stops[seq_id] = stops, before + text
        return text

    def _decoded(self, token_ids: list[int]) -> str:
        return self._decode([*self._start, *token_ids]).removeprefix(self._prefix)

    def _end(self, kind: type, seq_id: str, *why: object) -> list[tuple]:
        waiting, (stops, text) = self._waiting.pop(seq_id, []), self._stops.pop(seq_id, ((), ""))
        found = next((stop for stop in stops if stop in text), None)
        if kind is ev.RequestAborted and found is not None:
            # vLLM's front end looks for stop strings, and aborts the request that has one.
            kind, why = ev.RequestFinished, ("stop", found)
        flushed = [(ev.TextFlushed, seq_id, self._decoded(waiting))] if waiting else []
        return [*flushed, (kind, seq_id, *why)]
