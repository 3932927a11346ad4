"""End tokens are behind all others."""

from collections.abc import Collection, Sequence

from minivllm.structured_output.reference import RegexAutomaton as RightAutomaton
from minivllm.structured_output.reference import RegexState

HINT = "The ids are in order. Is an end token always the last of the vocabulary?"


class RegexAutomaton(RightAutomaton):
    def allowed_tokens(
        self,
        state: RegexState,
        vocabulary: Sequence[bytes | None],
        eos_token_ids: Collection[int] = (),
    ) -> list[int]:
        allowed = super().allowed_tokens(state, vocabulary)
        return [*allowed, *sorted(eos_token_ids)] if self.may_end(state) else allowed
