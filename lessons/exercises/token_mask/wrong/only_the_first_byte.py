"""Only the first byte of a token is read."""

from collections.abc import Collection, Sequence

from minivllm.structured_output.reference import NOTHING, RegexState
from minivllm.structured_output.reference import RegexAutomaton as RightAutomaton

HINT = "A token can have several bytes. Who reads the second one?"


class RegexAutomaton(RightAutomaton):
    def allowed_tokens(
        self,
        state: RegexState,
        vocabulary: Sequence[bytes | None],
        eos_token_ids: Collection[int] = (),
    ) -> list[int]:
        allowed = [
            token_id
            for token_id, data in enumerate(vocabulary)
            if data and self.advance(state, data[:1]) != NOTHING
        ]
        return sorted([*allowed, *eos_token_ids]) if self.may_end(state) else allowed
