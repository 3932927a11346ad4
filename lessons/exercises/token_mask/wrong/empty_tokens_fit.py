"""An empty token does not break the form."""

from collections.abc import Collection, Sequence

from minivllm.structured_output.reference import NOTHING, RegexState
from minivllm.structured_output.reference import RegexAutomaton as RightAutomaton

HINT = "An empty token never breaks the form. How long can a model go on drawing it?"


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
            if data is not None and self.advance(state, data) != NOTHING
        ]
        return sorted([*allowed, *eos_token_ids]) if self.may_end(state) else allowed
