"""Grammars on the plain regular expressions of `structured_output.reference`.

The engine asks llguidance which tokens may follow, so an engine alone never runs a student's
`token-mask`. Here the same questions go to the plain automaton:

    compute_bitmask       RegexAutomaton.allowed_tokens, bitmask
    try_consume_tokens    RegexAutomaton.advance
    is_stopped            RegexAutomaton.may_end, and no token may follow

Grammars of other kinds still go to llguidance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minivllm.runtime.text.tokenizer import Tokenizer
    from minivllm.structured_output.reference import RegexAutomaton, RegexState
    from minivllm.structured_output.specification import Specification


class PlainMatcher:
    """What `StructuredOutputGrammar` needs of llguidance's `LLMatcher`."""

    def __init__(
        self,
        automaton: RegexAutomaton,
        vocabulary: list[bytes | None],
        eos_token_ids: frozenset[int],
        states: list[RegexState],
    ) -> None:
        """states: at the start, and after each token that was read"""
        self._automaton = automaton
        self._vocabulary = vocabulary
        self._eos_token_ids = eos_token_ids
        self._states = states

    def deep_copy(self) -> PlainMatcher:
        return PlainMatcher(self._automaton, self._vocabulary, self._eos_token_ids, [*self._states])

    def compute_bitmask(self) -> bytes:
        from minivllm.structured_output.reference import bitmask

        return bitmask(self._allowed(), len(self._vocabulary))

    def try_consume_tokens(self, token_ids: list[int]) -> int:
        """Read tokens up to the first one that is refused; return how many were read."""
        num_valid = self.validate_tokens(token_ids)
        for token_id in token_ids[:num_valid]:
            self._states.append(self._after(self._states[-1], token_id))
        return num_valid

    def validate_tokens(self, token_ids: list[int]) -> int:
        from minivllm.structured_output.reference import NOTHING

        state = self._states[-1]
        for number, token_id in enumerate(token_ids):
            state = NOTHING if self._vocabulary[token_id] is None else self._after(state, token_id)
            if state == NOTHING:
                return number
        return len(token_ids)

    def rollback(self, num_tokens: int) -> None:
        del self._states[len(self._states) - num_tokens :]

    def is_stopped(self) -> bool:
        return self._automaton.may_end(self._states[-1]) and (
            set(self._allowed()) <= self._eos_token_ids
        )

    def compute_ff_tokens(self) -> list[int]:
        """No token is forced: that needs the tokenizer's own way to split a text."""
        return []

    def is_error(self) -> bool:
        return False

    def _after(self, state: RegexState, token_id: int) -> RegexState:
        return self._automaton.advance(state, self._vocabulary[token_id])

    def _allowed(self) -> list[int]:
        return self._automaton.allowed_tokens(
            self._states[-1], self._vocabulary, self._eos_token_ids
        )


def use_plain_regexes() -> None:
    """Read every regex with the plain automaton from now on, in the whole process."""
    from minivllm.structured_output.manager import StructuredOutputManager

    with_llguidance = StructuredOutputManager._compile

    def compile_grammar(manager: StructuredOutputManager, specification: Specification) -> object:
        if specification.kind != "regex":
            return with_llguidance(manager, specification)
        return plain_matcher(specification.text, manager._tokenizer)

    StructuredOutputManager._compile = compile_grammar


def plain_matcher(pattern: str, tokenizer: Tokenizer) -> PlainMatcher:
    """Raises `ValueError` for a pattern that the automaton cannot read."""
    from minivllm.structured_output.reference import RegexAutomaton, vocabulary_bytes

    automaton = RegexAutomaton(pattern)
    return PlainMatcher(
        automaton, vocabulary_bytes(tokenizer), tokenizer.eos_token_ids, [automaton.start]
    )
