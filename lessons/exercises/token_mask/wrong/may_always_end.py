"""A text may end at any time."""

from collections.abc import Collection, Sequence

from minivllm.structured_output.reference import RegexAutomaton as RightAutomaton
from minivllm.structured_output.reference import RegexState

HINT = "A model that ends too soon leaves half a form. Where may the text end?"


class RegexAutomaton(RightAutomaton):
    def allowed_tokens(
        self,
        state: RegexState,
        vocabulary: Sequence[bytes | None],
        eos_token_ids: Collection[int] = (),
    ) -> list[int]:
        allowed = super().allowed_tokens(state, vocabulary)
        return sorted([*allowed, *eos_token_ids])
