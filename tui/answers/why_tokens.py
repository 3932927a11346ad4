"""Why a sequence got its newest token: one sentence, for `why` and for the panel.

The numbers are from the event `token.explained`, so there is a sentence only for watched sequences.
For others, `how_to_explain` says how to get one.
"""

from minivllm.events import types as ev
from minivllm.text import plural, short_name
from minivllm.tui.context import Context
from minivllm.tui.state.explanations import piece_of
from minivllm.tui.state.model import DashboardModel


def why_token(model: DashboardModel, event: ev.TokenExplained) -> str:
    """The sentence, without a full stop."""
    if event.beams:
        return _why_beams(model, event)
    if event.token_id is None:
        return _before_the_draw(model, event)
    chosen, second = event.chosen, event.second
    if chosen is None:
        return f"{piece_of(model.fold, event.token_id)} was chosen for an unknown reason"
    winner = piece_of(model.fold, chosen.token_id)
    grammar = model.explanations.grammar_at(event.seq_id, event.position)
    if grammar is not None and grammar.num_allowed == 1:
        said = f"{winner} is forced: the grammar refuses all other {event.vocab_size - 1:,} tokens"
        return said + _preferred(model, event, chosen)
    if event.temperature == 0.0:
        said = f"{winner} was the most likely token ({chosen.tempered_probability:.1%})"
        said += _of_allowed(event)
        if second is not None and None not in (chosen.processed_logit, second.processed_logit):
            margin = chosen.processed_logit - second.processed_logit
            said += (
                f": its logit {chosen.processed_logit:.2f} is {margin:.2f} above that of"
                f" {piece_of(model.fold, second.token_id)}"
            )
        return said + _preferred(model, event, chosen)
    if event.num_left == 1:
        return f"{winner} was the only token left{_left(event)}{_preferred(model, event, chosen)}"
    said = f"{winner} won the draw with probability {chosen.final_probability:.1%}{_left(event)}"
    if second is not None and chosen.arrival is not None and second.arrival is not None:
        said += (
            f"; it arrived at {chosen.arrival:.2f}, before {piece_of(model.fold, second.token_id)}"
            f" ({second.final_probability:.1%}) at {second.arrival:.2f}"
        )
    return said + _preferred(model, event, chosen)


def how_to_explain(context: Context, model: DashboardModel, seq_id: str | None) -> str:
    """What to do for an explanation of this sequence's tokens, or of any sequence's."""
    name = "" if seq_id is None else short_name(seq_id)
    if context.control is not None:
        newest = context.transport.recording.head.fold
        if not newest.running and not model.fold.running:
            return "Nothing runs. a asks the model; its words are then explained here."
        if seq_id is None:
            return "No token is explained yet: select a sequence (tab, then ↑ and ↓)."
        if seq_id in newest.sequences:
            when = "" if seq_id in newest.running else ", once it runs again"
            said = f"No token of {name} is explained up to here: the engine's next one is{when}"
            return f"{said}, unless W has stopped it."
        if seq_id in model.fold.sequences:  # the picture is of an earlier moment
            return f"No token of {name} is explained up to here, and it has ended since."
        return f"{name} has ended, and its tokens were not explained: select a running sequence."
    if by := model.header.source:
        return f"A recording of {by} explains no tokens: only minivllm knows the candidates."
    whose = f"the tokens of {name}" if seq_id is not None else "any token"
    if context.transport.source.status.state in ("recording", "indexing"):
        return (
            f"This recording does not explain {whose} up to here. To record explanations:"
            " minivllm demo --explain-tokens --record run.jsonl"
        )
    if context.lesson is not None:
        return f"The engine of this lesson does not explain {whose}; minivllm demo does."
    return (
        f"This engine has not explained {whose}, and a dashboard in another process cannot ask it"
        f" to. Start it with: minivllm serve {model.header.model} --events --explain-tokens"
    )


def _before_the_draw(model: DashboardModel, event: ev.TokenExplained) -> str:
    best = max(event.candidates, key=lambda candidate: candidate.final_probability, default=None)
    if best is None:
        return "the next token is about to be chosen"
    token = piece_of(model.fold, best.token_id)
    if event.temperature == 0.0:
        return f"{token} is the most likely token, and is about to be taken without a draw"
    return (
        f"the draw is about to begin{_left(event)}; {token} wins with probability"
        f" {best.final_probability:.1%}"
    )


def _share(candidate: ev.TokenCandidate) -> str:
    return f"{candidate.probability:.1%}" if candidate.probability >= 0.0005 else "less than 0.1%"


def _of_allowed(event: ev.TokenExplained) -> str:
    cut = next((cut for cut in event.cuts if cut.name == "structured_outputs"), None)
    return "" if cut is None else f" of {plural(cut.num_left, 'token')} that the grammar allows"


def cut_words(cut: ev.SamplingCut) -> str:
    """A cut with its value, such as `top-p 0.9`."""
    if cut.name == "structured_outputs":
        return "grammar"
    return f"{cut.name.replace('_', '-')} {cut.value:g}"


def _left(event: ev.TokenExplained) -> str:
    cuts = [cut_words(cut) for cut in event.cuts]
    num_cut = event.vocab_size - event.num_left
    if not cuts or not num_cut:
        return f" among {plural(event.num_left, 'token')}"
    return f" after {' and '.join(cuts)} cut {num_cut:,} of {plural(event.vocab_size, 'token')}"


def _preferred(model: DashboardModel, event: ev.TokenExplained, chosen: ev.TokenCandidate) -> str:
    """The model's own best token, if mask, bias or penalties put it behind the chosen token."""
    best = max(event.candidates, key=lambda candidate: candidate.logit)
    behind = best.processed_logit is None or (
        chosen.processed_logit is not None and best.processed_logit < chosen.processed_logit
    )
    if best is chosen or not behind:
        return ""
    piece = piece_of(model.fold, best.token_id)
    if best.cut_by == "structured_outputs":
        return (
            f"; the model itself preferred {piece} ({best.probability:.1%}), which the grammar"
            f" refuses, and gave {piece_of(model.fold, chosen.token_id)} {_share(chosen)}"
        )
    because = "is masked" if best.processed_logit is None else "lost to bias or penalties"
    return f"; the model itself preferred {piece}, which {because}"


def _why_beams(model: DashboardModel, event: ev.TokenExplained) -> str:
    going_on = [beam for beam in event.beams if beam.fate == "continues"]
    ended = [beam for beam in event.beams if beam.fate == "ends"]
    dropped = [beam for beam in event.beams if beam.fate == "dropped"]
    name = short_name(event.seq_id.rpartition(".")[0])
    said = f"the search of {name} is over"
    if going_on:
        said = (
            f"{plural(len(going_on), 'beam')} of {name} {'goes' if len(going_on) == 1 else 'go'} on"
            f" with scores from {going_on[0].score:.2f} to {going_on[-1].score:.2f}"
        )
    if ended:
        said += f"; {plural(len(ended), 'text')} ended, the best with {ended[0].score:.2f}"
    if dropped:
        piece = piece_of(model.fold, dropped[0].token_id)
        said += f"; the best that was dropped, {piece}, has {dropped[0].score:.2f}"
    return said
