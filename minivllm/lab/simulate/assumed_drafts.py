"""`AssumedDrafts`: drafts for a simulation, which has no texts and so cannot know which are right.

How often a draft is right is given: with a rate of 0.6 and four drafts, the first is right in 60 %
of the steps, the first two in 36 %, and so on. Every sequence finds a draft whenever it wants one,
which takes no time, as with prompt lookup in a text full of repetitions. The engine's own
`SpeculativeDrafter` decides how many drafts a sequence gets.
"""

from collections.abc import Sequence as Seq
from random import Random

from minivllm.config import EngineConfig
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledSequence
from minivllm.errors import ConfigError
from minivllm.speculation.proposers import Draft, Wanted


class AssumedDrafts:
    """A `Proposer`, and the verification of its drafts."""

    def __init__(self, acceptance_rate: float, seed: str) -> None:
        self._rate = acceptance_rate
        self._random = Random(f"drafts/{seed}")

    def propose(self, wanted: Seq[Wanted]) -> list[Draft]:
        """See `Proposer.propose`. All tokens of a sequence's own have the same id."""
        return [Draft([want.sequence.token_ids[-1]] * want.num_tokens, "ngram") for want in wanted]

    def forget(self, sequence: Sequence) -> None:
        """See `Proposer.forget`."""

    def num_accepted(self, item: ScheduledSequence) -> int:
        """Draw how many drafts of `item` are right before the first wrong one."""
        for number in range(len(item.draft_token_ids)):
            if self._random.random() >= self._rate:
                return number
        return len(item.draft_token_ids)


def check_drafts(config: EngineConfig, acceptance_rate: float | None) -> None:
    """Raise `ConfigError` unless drafts and their acceptance rate are given together."""
    speculative = config.speculative_config
    if (speculative is None) != (acceptance_rate is None):
        raise ConfigError(
            "A simulation has no texts, so it cannot know how many drafts are right: give"
            " --speculative-config and --acceptance-rate together, or leave out both."
        )
    if speculative is not None and speculative.method != "ngram":
        raise ConfigError(
            "The step times do not say how long a draft model takes: simulate"
            ' --speculative-config with "method": "ngram".'
        )
    if acceptance_rate is not None and not 0.0 <= acceptance_rate <= 1.0:
        raise ConfigError(f"--acceptance-rate must be from 0 to 1; got {acceptance_rate:g}.")
