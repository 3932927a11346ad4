"""`TokenNames`: emits the text of each token id once, so that views show words and not ids.

Called for every prompt and every sampled token, but only while a listener watches the engine. Most
tokens have a name already and cost one dictionary lookup. The memory is limited by the vocabulary.
"""

from collections.abc import Iterable, Mapping

from minivllm.core.request import Request
from minivllm.engine.detokenizer import TokenDecoder
from minivllm.events import types as ev
from minivllm.events.bus import EventBus


class TokenNames:
    def __init__(self, decoder: TokenDecoder, bus: EventBus) -> None:
        self._decoder = decoder
        self._bus = bus
        self.pieces: dict[int, str] = {}
        """The text of each token id that the listeners know."""

    def name(self, token_ids: Iterable[int]) -> None:
        """Emit the ids that have no name yet. Call this before emitting an event with the ids."""
        new = [one for one in dict.fromkeys(token_ids) if one not in self.pieces]
        if new:
            pieces = {token_id: self._piece(token_id) for token_id in new}
            self.pieces |= pieces
            self._bus.emit(ev.TokensNamed, pieces)

    def catch_up(self, requests: Mapping[str, Request]) -> None:
        """Before the first listener subscribes, name the tokens of the unfinished `requests`."""
        if not self._bus.active:
            self.pieces = {
                token_id: self._piece(token_id)
                for request in requests.values()
                for sequence in request.sequences
                for token_id in dict.fromkeys(sequence.token_ids)
            }

    def _piece(self, token_id: int) -> str:
        try:
            return self._decoder.piece(token_id)
        # A token without a text fails its request when the text is due, not because of a view.
        except Exception:
            return ""
