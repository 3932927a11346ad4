"""A token must lead to the end of the text."""

from collections.abc import Collection, Sequence

from minivllm.structured_output.reference import RegexAutomaton as RightAutomaton
from minivllm.structured_output.reference import RegexState

HINT = "Must the text be complete after this token? Something may follow it."


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
            if data and self.may_end(self.advance(state, data))
        ]
        return sorted([*allowed, *eos_token_ids]) if self.may_end(state) else allowed
