"""A text ends only if nothing else may follow."""

from collections.abc import Collection, Sequence

from minivllm.structured_output.reference import RegexAutomaton as RightAutomaton
from minivllm.structured_output.reference import RegexState

HINT = "After `no` in `(yes|no)+`, more may follow, and the text may end, too."


class RegexAutomaton(RightAutomaton):
    def allowed_tokens(
        self,
        state: RegexState,
        vocabulary: Sequence[bytes | None],
        eos_token_ids: Collection[int] = (),
    ) -> list[int]:
        allowed = super().allowed_tokens(state, vocabulary)
        return allowed or (sorted(eos_token_ids) if self.may_end(state) else [])
