"""End tokens have no bytes, so they are refused."""

from collections.abc import Collection, Sequence

from minivllm.structured_output.reference import RegexAutomaton as RightAutomaton
from minivllm.structured_output.reference import RegexState

HINT = "End tokens have no bytes to read. Who else says that the text may end?"


class RegexAutomaton(RightAutomaton):
    def allowed_tokens(
        self,
        state: RegexState,
        vocabulary: Sequence[bytes | None],
        eos_token_ids: Collection[int] = (),
    ) -> list[int]:
        return super().allowed_tokens(state, vocabulary)
