"""Why drafts of a step were accepted or rejected: half a sentence, for `why`."""

from minivllm.events.state import ScheduledState
from minivllm.text import plural
from minivllm.tui.state.drafts import DrawnDraft
from minivllm.tui.state.explanations import piece_of
from minivllm.tui.state.model import DashboardModel


def why_drafts(model: DashboardModel, item: ScheduledState) -> str:
    """Where a sequence's drafts come from, and which of them were right.

    item: the sequence's share of the step, with drafts
    """
    said = plural(len(item.draft_token_ids), "draft")
    draft = model.drafts.current(item.seq_id, model.fold.step)
    if draft is None:  # the recording begins inside this step
        return said
    said += _source(model, draft)
    if draft.num_accepted is None:
        return f"{said}; the step will verify them: a draft is right if the model draws it, too"
    own = piece_of(model.fold, draft.token_id)
    if not draft.rejected:
        right = "it was right" if len(draft.token_ids) == 1 else "all were right"
        if draft.forced:
            return f"{said}; {right}, as the grammar allows nothing else, and {own} came on top"
        return f"{said}; {right}, because the model drew the same, and {own} came on top"
    right = f"{draft.num_accepted:,} of them {'was' if draft.num_accepted == 1 else 'were'} right"
    wrong = piece_of(model.fold, draft.rejected[0])
    after = plural(len(draft.rejected) - 1, "draft")
    behind = f"; {after} behind it had followed a wrong token" if len(draft.rejected) > 1 else ""
    return (
        f"{said}; {right if draft.num_accepted else 'none was right'}: instead of {wrong} the model"
        f" drew {own}{behind}"
    )


def _source(model: DashboardModel, draft: DrawnDraft) -> str:
    if draft.source != "ngram" or draft.match is None or not draft.match_length:
        whose = {"draft_model": " of the draft model", "grammar": " that the grammar forces"}
        return whose.get(draft.source, "")
    last = plural(draft.match_length, "token")
    return (
        f", which followed its last {last} before, at position {draft.match + draft.match_length:,}"
    )
