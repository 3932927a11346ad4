"""`Grammars`: checks the grammars of requests and has them compiled."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from minivllm.clock import Clock
from minivllm.structured_outputs_params import StructuredOutputsParams

if TYPE_CHECKING:
    from minivllm.runtime.text.tokenizer import Tokenizer
    from minivllm.structured_output.grammar import StructuredOutputGrammar
    from minivllm.structured_output.manager import StructuredOutputManager


class Grammars:
    """Imports nothing of `minivllm.structured_output` before a request has a grammar."""

    def __init__(self, tokenizer: Tokenizer, clock: Clock) -> None:
        self._tokenizer = tokenizer
        self._clock = clock
        self._compiling: list[StructuredOutputGrammar] = []
        self._manager: StructuredOutputManager | None = None
        self._lock = Lock()

    def prepare(self, params: StructuredOutputsParams | None) -> StructuredOutputGrammar | None:
        """Check and start to compile the grammar of a request to come; None without one.

        Any thread may call this. Checking a large grammar takes up to half a second, and no time
        once it is known, so a server can do it before the engine's thread gets the request.

        Raises `InvalidSamplingParamsError` for a grammar that is invalid or has no end.
        """
        if params is None:
            return None
        grammar = self._get_manager().prepare(params)
        if not grammar.settle():
            self._compiling.append(grammar)
        return grammar

    def settle(self) -> None:
        """Note which grammars are compiled by now. Called in the engine's thread before a phase."""
        if self._compiling:
            # Another thread may append meanwhile.
            for grammar in list(self._compiling):
                if grammar.settle():
                    self._compiling.remove(grammar)

    def _get_manager(self) -> StructuredOutputManager:
        from minivllm.structured_output.manager import StructuredOutputManager

        with self._lock:  # two threads may have the first grammar
            if self._manager is None:
                # With a virtual clock, no event may depend on how long compiling takes.
                in_background = self._clock.name != "virtual"
                self._manager = StructuredOutputManager(
                    self._tokenizer, in_background=in_background
                )
            return self._manager
