"""Which drafts are kept: those before the first difference, and never a row with an error."""

from minivllm.core.request import Request, Sequence
from minivllm.core.scheduler_output import ScheduledDrafts, SchedulerOutput
from minivllm.errors import SamplingError
from minivllm.outputs import SampledToken
from minivllm.sampling_params import SamplingParams
from minivllm.speculation.verify import verify

NAN = SamplingError("It has NaN.", "r.0")


def sequence(name: str) -> Sequence:
    return Sequence(Request(name, [1, 2], SamplingParams()), 0, [1, 2, 3])


def final(drafts: list[int], drawn: list[int | SamplingError]) -> list | None:
    """The final tokens of a sequence with these drafts; None if it is left to the usual path."""
    own = sequence("r")
    item = ScheduledDrafts(own, 2, 1 + len(drafts), sampling=[own], draft_token_ids=drafts)
    plan = SchedulerOutput(1, 9, [item], num_draft_tokens=len(drafts))
    rows = plan.sampling_sequences()
    tokens = [value if value is NAN else SampledToken(value) for value in drawn]
    left, verified = verify(plan, list(zip(rows, tokens, strict=True)))
    if left:
        assert (left, verified) == ([(own, tokens[0])], [])
        return None
    return [token.token_id for _, token in verified[0].rows]


def test_tokens_are_final_up_to_the_first_that_differs_from_its_draft() -> None:
    assert final([7, 3, 9], [7, 3, 4, 8]) == [7, 3, 4]
    assert final([7, 3, 9], [5, 3, 9, 8]) == [5]
    assert final([7, 3, 9], [7, 3, 9, 8]) == [7, 3, 9, 8]


def test_an_error_counts_only_if_it_is_in_the_sequences_own_row() -> None:
    assert final([7, 3], [NAN, 3, 4]) is None, "the request fails, as without drafts"
    assert final([7, 3], [7, NAN, 4]) == [7], "the next step meets the error again"
    assert final([7, 3], [7, 3, NAN]) == [7, 3]
    assert final([7, 3], [5, NAN, NAN]) == [5], "its draft was wrong, so the row means nothing"
