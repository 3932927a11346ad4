"""What the grammar of a watched sequence leaves of the vocabulary."""

from typing import ClassVar

from minivllm.events.types.envelope import Event


class GrammarState(Event, tag="grammar.state"):
    """What the grammar of a watched sequence allows at `position`. Emitted before the token."""

    seq_id: str
    position: int
    """Index of the token in the sequence, prompt included, from 0."""
    num_allowed: int
    """How many tokens of the vocabulary may follow."""
    refused_token_id: int | None = None
    """The token that the model liked best of those refused; None if the grammar refuses none."""
    refused_probability: float = 0.0
    """The model's probability of that token."""
    rule: ClassVar[str] = "minivllm.engine.watchers:TokenExplainer._show_grammar"

    @property
    def forced(self) -> bool:
        """Whether the grammar leaves no choice."""
        return self.num_allowed == 1
