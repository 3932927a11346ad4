"""`StructuredOutputGrammar`: the grammar of a request, and how far its sequences have come.

A matcher of llguidance reads output tokens and answers which tokens may follow, as one bit for each
token of the vocabulary. Each sequence has a matcher of its own. Before every answer, the matcher is
brought to the tokens that the caller's sequence has now:

    matcher has read    { "a" : 1
    sequence has        { "a" : 23        roll back 1 token, then read 1

So nobody has to report what happens to a sequence. A preempted sequence keeps its tokens, and is
recomputed without reading one twice. A row after drafts (`DraftedSequence`) reads the drafts, and
the next row or step takes the rejected ones back. A new sample starts with a fresh matcher.

Source: vLLM `vllm/v1/structured_output/backend_guidance.py` (`GuidanceGrammar`).
"""

from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import NamedTuple, NoReturn, TypeVar

from llguidance import LLMatcher

from minivllm.core.request import Sequence
from minivllm.errors import UnusableGrammarError
from minivllm.sampling_params import StructuredOutputsKind

T = TypeVar("T")


class _Progress(NamedTuple):
    matcher: LLMatcher
    token_ids: list[int]
    """The output tokens that the matcher has read."""


class StructuredOutputGrammar:
    """Call its methods in the engine's thread. All but `settle` need a compiled grammar.

    `bitmask` and `is_terminated` raise `UnusableGrammarError` if compiling failed or the grammar
    exceeds a limit of llguidance. The other methods are for drafts, which are only chosen in the
    phase `schedule`, where nothing may fail: then they return no token.
    """

    def __init__(
        self,
        kind: StructuredOutputsKind,
        compiled: Future[LLMatcher],
        eos_token_ids: frozenset[int],
        on_unusable: Callable[[], None] = lambda: None,
    ) -> None:
        """on_unusable: called before an `UnusableGrammarError` is raised, possibly several times"""
        self.is_compiled = False
        """Changes only in `settle`, so that it is the same during a whole phase."""
        self._kind = kind
        self._compiled = compiled
        self._eos_token_ids = eos_token_ids
        self._on_unusable = on_unusable
        self._progress: dict[int, _Progress] = {}
        """By the index of a sequence. A draft model's copy of a sequence has the same index."""

    def settle(self) -> bool:
        """Note and return whether the grammar is compiled by now."""
        self.is_compiled = self._compiled.done()
        return self.is_compiled

    def bitmask(self, sequence: Sequence) -> bytes | None:
        """Return which tokens may follow: token i is bit i % 8 of byte i // 8.

        End-of-sequence may follow only where the text may end. None if the sequence has a draft
        that the grammar refuses: what follows it will be dropped.
        """
        matcher = self._matcher_after(sequence)
        if matcher is None:
            return None
        mask = matcher.compute_bitmask()
        self._require_no_error(matcher)
        return mask

    def is_terminated(self, sequence: Sequence) -> bool:
        """Whether the text is complete, so that nothing but end-of-sequence may follow."""
        matcher = self._matcher_after(sequence)
        return matcher is not None and matcher.is_stopped()

    def validate_tokens(self, sequence: Sequence, token_ids: list[int]) -> list[int]:
        """Return the first of `token_ids`, as many as may follow one after the other."""
        num_valid = self._ask(sequence, lambda matcher: matcher.validate_tokens(token_ids))
        return token_ids[: num_valid or 0]

    def forced_tokens(self, sequence: Sequence) -> list[int]:
        """Return the tokens that must follow, because the grammar leaves no choice; often none."""
        return self._ask(sequence, lambda matcher: matcher.compute_ff_tokens()) or []

    def _ask(self, sequence: Sequence, question: Callable[[LLMatcher], T]) -> T | None:
        """Return `question(matcher)` after the tokens of `sequence`.

        None for an error, which comes again when the mask of the sequence is asked for.
        """
        try:
            matcher = self._matcher_after(sequence)
            if matcher is not None:
                result = question(matcher)
                self._require_no_error(matcher)
                return result
        except UnusableGrammarError:
            pass
        return None

    def _matcher_after(self, sequence: Sequence) -> LLMatcher | None:
        """Return the matcher after all output tokens of `sequence`; None if it refuses one."""
        progress = self._progress.get(sequence.index)
        if progress is None:
            progress = _Progress(self._compiled.result().deep_copy(), [])
            self._progress[sequence.index] = progress
        matcher, read = progress
        output = sequence.output_token_ids
        if output[: len(read)] != read:
            common = next(i for i in count() if output[i : i + 1] != read[i : i + 1])
            matcher.rollback(len(read) - common)
            del read[common:]
        new = output[len(read) :]
        # A sequence ends with its end-of-sequence token; only drafts can go on after it. A matcher
        # does not count that token in a rollback, so it must not read it.
        end = next((i for i, token in enumerate(new) if token in self._eos_token_ids), len(new))
        num_read = matcher.try_consume_tokens(new[:end])
        read += new[:num_read]
        self._require_no_error(matcher)
        if num_read == len(new):
            return matcher
        if num_read < end and isinstance(sequence, Sequence):
            # Its tokens were allowed when they were sampled. All sequences with this grammar share
            # llguidance's lexer, which refuses everything after an error of one of them.
            self._fail("another output of the same form exceeded a limit")
        return None

    def _require_no_error(self, matcher: LLMatcher) -> None:
        if matcher.is_error():
            self._fail(matcher.get_error().partition("\n")[0])

    def _fail(self, reason: str) -> NoReturn:
        self._on_unusable()
        raise UnusableGrammarError(
            f"structured_outputs: {self._kind} is too complex ({reason}): simplify it."
        )
