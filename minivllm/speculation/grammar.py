"""`GrammarProposer`: drafts for sequences whose output must fit a grammar.

    allowed so far    {"            the schema has one property, so the grammar forces  name":
    forced drafts     name ": "     always right: the mask leaves nothing else to draw
    other drafts      cut before the first token that the grammar refuses

Forced tokens cost no model to draft, and none is rejected ("jump-forward decoding"). Where nothing
is forced, the usual proposer drafts.

Source: the idea is https://lmsys.org/blog/2024-02-05-compressed-fsm/; vLLM cuts drafts in
`vllm/v1/core/sched/scheduler.py` (`update_draft_token_ids`).
"""

from collections.abc import Sequence as Seq

from minivllm.core.request import Sequence
from minivllm.speculation.base import Draft, Proposer, Wanted


class GrammarProposer:
    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer

    def propose(self, wanted: Seq[Wanted]) -> list[Draft]:
        """See `Proposer.propose`."""
        if all(one.sequence.request.grammar is None for one in wanted):
            return self._proposer.propose(wanted)
        forced = [_forced(*one) for one in wanted]
        others = [one for one, draft in zip(wanted, forced, strict=True) if draft is None]
        drafts = iter(self._proposer.propose(others) if others else ())
        return [
            draft or _valid(one.sequence, next(drafts))
            for one, draft in zip(wanted, forced, strict=True)
        ]

    def forget(self, sequence: Sequence) -> None:
        """See `Proposer.forget`."""
        self._proposer.forget(sequence)


def _forced(sequence: Sequence, num_tokens: int) -> Draft | None:
    grammar = sequence.request.grammar
    token_ids = [] if grammar is None else grammar.forced_tokens(sequence)[:num_tokens]
    return Draft(token_ids, "grammar") if token_ids else None


def _valid(sequence: Sequence, draft: Draft) -> Draft:
    """Cut `draft` before the first token that the sequence's grammar refuses."""
    grammar = sequence.request.grammar
    if grammar is None:
        return draft
    return draft._replace(token_ids=grammar.validate_tokens(sequence, draft.token_ids))
