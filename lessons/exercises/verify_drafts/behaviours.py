"""Checks for verify-drafts: rows alone, plans, sequences with blocks, then the whole engine."""

from collections.abc import Iterator
from typing import Any

from minivllm.core.scheduler_output import ScheduledDrafts, ScheduledSequence, SchedulerOutput
from minivllm.errors import SamplingError
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.manager_operations import manager_of, manager_state, sequence_of
from minivllm.lessons.checker.cases.traces import (
    draw_request,
    draw_trace,
    requests_with_samples,
    run_trace,
)
from minivllm.outputs import SampledToken
from minivllm.speculation import verify

ERROR = 9
"""Stands for a row in which the sampler failed."""


def _row(draw: Draw) -> list[int]:
    """Draw a draft, and what the row before it drew: mostly the same token."""
    draft = draw.integer(0, 2)
    return [draft, draft if draw.integer(0, 3) < 3 else draw.integer(0, 2)]


def rows_of(draw: Draw, may_fail: bool = False) -> Case:
    pairs = draw.list_of(_row, 0, 4)
    drawn = [drawn for _, drawn in pairs] + [draw.integer(0, 2)]
    if may_fail:
        drawn = [drawn[0], *(ERROR if draw.integer(0, 3) == 3 else token for token in drawn[1:])]
    return {"drafts": [draft for draft, _ in pairs], "drawn": drawn}


def _token(token_id: int) -> Any:
    return SamplingError("no token", "ada.0") if token_id == ERROR else SampledToken(token_id)


def _shown(rows: list[Any]) -> list[int | str]:
    return [getattr(token, "token_id", "error") for _, token in rows]


def _tell_final(case: Case) -> Lines:
    rows = [(sequence_of(0), _token(token_id)) for token_id in case["drawn"]]
    final = verify._final(list(rows), list(case["drafts"]))
    yield f"drafts {case['drafts']}, drawn {_shown(rows)}: final {_shown(final)}"


@behaviour(task=1, cases=rows_of, examples=100)
def accepts(case: Case) -> Lines:
    """tokens are final up to the first one that is not the draft

    Write the drafts below the drawn tokens, each below the token that it guessed. Which rows
    continued the real text?
    """
    yield from _tell_final(case)


@behaviour(task=1, cases=lambda draw: rows_of(draw, may_fail=True), examples=100)
def ends_at_errors(case: Case) -> Lines:
    """an error ends the final tokens, and is none itself

    What has a row with a SamplingError instead of a token? And the rows before it?
    """
    yield from _tell_final(case)


def _item(draw: Draw) -> Case:
    has_drafts = draw.boolean()
    case = rows_of(draw) if has_drafts else {"drafts": [], "drawn": [draw.integer(0, 2)]}
    if not has_drafts:  # samples of one prompt, or a chunk in the middle of one
        case["drawn"] = draw.list_of(lambda d: d.integer(0, 2), 0, 3)
    elif draw.integer(0, 3) == 3:
        case["drawn"] = [ERROR, *case["drawn"][1:]]
    return case


@behaviour(task=2, cases=lambda draw: {"items": draw.list_of(_item, 1, 4)})
def shares_out(case: Case) -> Lines:
    """each sequence of a plan gets its own rows

    The rows have the order of the plan. Count how many belong to each of its items.
    """
    plan, tokens = SchedulerOutput(1, 64), []
    for number, entry in enumerate(case["items"]):
        drafts, drawn = entry["drafts"], entry["drawn"]
        own = [sequence_of(number)] * (1 if drafts else len(drawn))
        plan.scheduled.append(
            ScheduledDrafts(own[0], 0, 1 + len(drafts), sampling=own, draft_token_ids=drafts)
            if drafts
            else ScheduledSequence(sequence_of(number), 0, 1, sampling=own)
        )
        tokens += map(_token, drawn)
        plan.num_draft_tokens += len(drafts)
        yield f"r{number}: {len(own)} sampling, drafts {drafts}, drawn {_shown_tokens(drawn)}"
    rows = list(zip(plan.sampling_sequences(), tokens, strict=True))
    others, verified = verify.verify(plan, rows)
    names = [sequence.request.request_id for sequence, _ in others]
    yield f"without drafts: {list(zip(names, _shown(others), strict=True))}"
    for item, final in verified:
        yield f"verified: {item.sequence.request.request_id}, final {_shown(final)}"


def _shown_tokens(drawn: list[int]) -> list[int | str]:
    return ["error" if token_id == ERROR else token_id for token_id in drawn]


def rounds_of(draw: Draw, num_blocks: int) -> Case:
    return {
        "block_size": draw.integer(1, 4),
        "num_blocks": num_blocks,
        "prompts": [draw.integer(1, 6), draw.integer(1, 6)],
        "rounds": draw.list_of(lambda d: [d.integer(0, 1), d.integer(1, 4), d.integer(0, 4)], 1, 8),
    }


def _verifications(case: Case) -> Iterator[tuple[Any, Any, list[Any], str]]:
    """Run rounds of drafts: (item, manager, sequences, description), after each roll-back."""
    manager = manager_of(case["num_blocks"], case["block_size"])
    sequences = [sequence_of(i, list(range(size))) for i, size in enumerate(case["prompts"])]
    for which, num_drafts, num_right in case["rounds"]:
        sequence, num_accepted = sequences[which], min(num_right, num_drafts)
        start, num_tokens = sequence.num_tokens - 1, sequence.num_tokens + num_drafts
        if manager.allocate_slots(sequence, num_tokens) is not None:
            continue
        sequence.num_computed_tokens = num_tokens
        item = ScheduledDrafts(
            sequence, start, 1 + num_drafts, sampling=[sequence], draft_token_ids=[1] * num_drafts
        )
        verify.roll_back(item, num_accepted, manager)
        yield (
            item,
            manager,
            sequences,
            f"r{which} of length {start + 1}, {num_accepted} of {num_drafts} drafts right",
        )
        for _ in range(1 + num_accepted):
            sequence.append_token(1)


@behaviour(task=3, cases=lambda draw: rounds_of(draw, num_blocks=99))
def uncounts(case: Case) -> Lines:
    """rejected drafts are not computed any more, and accepted ones stay computed

    The plan counted the last known token and all drafts as computed. How many of these positions
    have the right keys and values?
    """
    for item, _, _, what in _verifications(case):
        yield (
            f"{what}: {item.sequence.num_computed_tokens} tokens computed, num_accepted"
            f" {item.num_accepted}"
        )


@behaviour(task=3, cases=lambda draw: rounds_of(draw, num_blocks=draw.integer(4, 12)))
def releases(case: Case) -> Lines:
    """a block with nothing but rejected drafts is released

    Divide the number of computed tokens by the block size. Is the table as long as that?
    """
    for item, manager, sequences, what in _verifications(case):
        # The count has a check of its own.
        item.sequence.num_computed_tokens = item.start + 1
        yield f"{what}: {manager_state(manager, sequences)}"


def drafted_trace(draw: Draw, element: Any) -> Case:
    """A trace with drafts of which every few are wrong."""
    return draw_trace(
        draw,
        lambda d: {**element(d), "max_tokens": d.integer(1, 14)},
        num_blocks=draw.integer(6, 14),
        block_size=4,
        wrong_every=draw.integer(2, 9),
        speculative_config={
            "method": "draft_model",
            "model": "toy",
            "num_speculative_tokens": draw.integer(1, 4),
        },
    )


@behaviour(task=4, cases=lambda draw: drafted_trace(draw, draw_request), trace=True)
def serves(case: Case) -> Lines:
    """the engine emits the same events for random requests with drafts

    Open it with `minivllm exercise diff`: which draft.verified comes before the first difference,
    and what was rolled back after it?
    """
    yield from run_trace(case)


@behaviour(task=4, cases=lambda draw: drafted_trace(draw, requests_with_samples), trace=True)
def serves_samples(case: Case) -> Lines:
    """the engine emits the same events for samples with drafts

    The samples of a prompt share blocks, and each has drafts of its own. Whose rows and whose
    blocks did you take?
    """
    yield from run_trace(case)
