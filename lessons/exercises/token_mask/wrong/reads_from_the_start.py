"""Tokens are read from the start of the pattern."""

from collections.abc import Collection, Sequence

from minivllm.structured_output.reference import NOTHING, RegexState
from minivllm.structured_output.reference import RegexAutomaton as RightAutomaton

HINT = "Some text was read before this token. Which argument says so?"


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
            if data and self.advance(self.start, data) != NOTHING
        ]
        return sorted([*allowed, *eos_token_ids]) if self.may_end(state) else allowed
