"""Panel "The choice": how a watched sequence got its newest token, or the selected one.

Shows the selected sequence, or else the first running one that is explained. Before the draw, in
phase stepping, the candidates are shown without a winner.
"""

from typing import NamedTuple

from rich.cells import cell_len

from minivllm.events import types as ev
from minivllm.text import clean, plural, short_name
from minivllm.tui.answers.why_tokens import cut_words, how_to_explain, why_token
from minivllm.tui.draw.drafts import FORCED_STYLE, REJECTED, confidence_style, put_word
from minivllm.tui.draw.lines import Line, Row, line, wrap
from minivllm.tui.draw.selection import Selection, Target, sequence, token
from minivllm.tui.state.explanations import TOKENS_KEPT
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.time.event_search import index_of
from minivllm.tui.widgets.choice.candidates import candidate_lines
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.draft_words import refused_word

_ROWS_FOR_HEAD, _ROWS_FOR_REASON = 8, 10
_STEPS_TO_READ = 8
"""For so long, the overview shows the last token of a sequence that has ended."""


class Choice(Panel):
    HELP_TITLE = "The choice"
    HELP_TEXT = (
        "How a sequence got its newest token, while it is watched: in demo and live a selected"
        " sequence is, and W starts and stops it. The text is coloured by the model's own"
        " probability of each word; below 30 % it is underlined. < and > walk to the words"
        " before and after (← and → go through the steps), and a click selects one. Then the"
        " candidates: the model's probability, the one after penalties and temperature, and the"
        " final one, or the cut that removed the token. The draw is a race: each token has a"
        " random number, and arrives at this number divided by its final probability. The earliest"
        " token wins. Key N stops before the draw. With a grammar: how many tokens it allows, and struck out,"
        " the most likely of those that it refuses."
    )
    KEYS = ("look.word_back", "look.word", "engine.tokens")
    RULE = "minivllm.runtime.sampling.sampler:Sampler._race"
    NEWEST_LAST = True

    _read: tuple[object, int | None, ev.TokenExplained | None] = (None, None, None)
    """The event of a selected word: (recording, number, event)."""

    def title(self, model: DashboardModel, width: int) -> str:
        seq_id = chosen_sequence(model, self.selection)
        event = None if seq_id is None else self._event(model, seq_id)
        if event is None:
            return self.HELP_TITLE
        if event.token_id is None:
            return f"{self.HELP_TITLE}  before sample: token {event.position:,}"
        return f"{self.HELP_TITLE}  token {event.position:,}, step {event.step:,}"

    def targets(self) -> list[Target]:
        return [target for target in super().targets() if target.kind == "token"]

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        seq_id = chosen_sequence(model, self.selection)
        event = None if seq_id is None else self._event(model, seq_id)
        if event is None:
            hint = how_to_explain(self.context, model, seq_id)
            return [line(width, (row, "muted")) for row in wrap(hint, width)][:height]
        has_head = height >= _ROWS_FOR_HEAD
        letter = model.letter(seq_id)
        head = Row(width).put(f"{letter or '-'} ", f"{model.hue(letter)}*")
        head.put(short_name(seq_id), "text*", target=sequence(seq_id)).put(" ")
        if has_head:
            top = [head.put(_settings(event), "muted").line()]
            top += _sentence(model, seq_id, event, width, min(max((height - 4) // 5, 1), 4))
            top += _grammar(model, event, width)
        else:
            words = _sentence(model, seq_id, event, head.room, 1)
            top = [(*head.line(), *(words[0] if words else ()))]
        if height >= _ROWS_FOR_REASON:
            reason = wrap(why_token(model, event) + ".", width)[: height // 5]
            top += [line(width, (row, "text")) for row in reason]
        room = height - len(top)
        return (top + candidate_lines(model, event, width, room, ascii=self.plain))[:height]

    def _event(self, model: DashboardModel, seq_id: str) -> ev.TokenExplained | None:
        """The explanation of the selected word, or of the newest one."""
        newest = model.explanations.of(seq_id)
        position = self.selection.position
        if position is None or (newest is not None and newest.position == position):
            return newest
        judged = model.explanations.judged.get(seq_id, ())
        number = next((token.event_seq for token in judged if token.position == position), None)
        if number is None:
            return newest
        recording = self.context.transport.recording
        if self._read[:2] != (recording, number):
            index = index_of(recording, number)
            found = None if index is None else next(recording.events(index, index + 1))
            self._read = recording, number, found
        return self._read[2] or newest


def chosen_sequence(model: DashboardModel, selection: Selection) -> str | None:
    """The selected sequence, or else the first running one that is explained, or the last one."""
    if selection.seq_id is not None:
        return selection.seq_id
    explanations = model.explanations
    for seq_id in model.fold.running:
        if explanations.of(seq_id) is not None:
            return seq_id
    return None if explanations.last is None else explanations.last.seq_id


def shows_choice(model: DashboardModel, selection: Selection) -> bool:
    """Whether the sequence has an explained token and is live, or has just ended."""
    seq_id = chosen_sequence(model, selection)
    event = None if seq_id is None else model.explanations.of(seq_id)
    if event is None:
        return False
    return seq_id in model.fold.sequences or model.fold.step - event.step <= _STEPS_TO_READ


def _grammar(model: DashboardModel, event: ev.TokenExplained, width: int) -> list[Line]:
    """What the grammar left for the token, and the best of the tokens that it refused."""
    grammar = model.explanations.grammar_at(event.seq_id, event.position)
    if grammar is None:
        return []
    forced = grammar.num_allowed == 1
    row = Row(width).put("grammar: ", "muted")
    words = f"{grammar.num_allowed:,} allowed" + ", forced" * forced
    row.put(words, FORCED_STYLE if forced else "text*")
    if grammar.refused_token_id is not None:
        row.put(";  refused  ", "muted")
        row.put(refused_word(model, grammar.refused_token_id), REJECTED)
        row.put(f"  {grammar.refused_probability:.1%}", "muted")
    return [row.line()]


def _settings(event: ev.TokenExplained) -> str:
    if event.beams:
        return "beam search"
    cuts = "".join(f", {cut_words(cut)} leaves {cut.num_left:,}" for cut in event.cuts)
    if event.temperature == 0.0:
        return f"greedy: the largest logit wins{cuts}"
    return f"temperature {event.temperature:g}{cuts} of {plural(event.vocab_size, 'token')}"


_PROMPT_TOKENS = 48
"""How many tokens of the prompt are shown, at most."""


class _Word(NamedTuple):
    position: int
    text: str
    style: str
    target: Target | None


def _sentence(
    model: DashboardModel, seq_id: str, event: ev.TokenExplained, width: int, height: int
) -> list[Line]:
    """At most `height` rows with the word that the event explains."""
    at, own = event.position, model.fold.sequences.get(seq_id)
    is_new = own is not None and at >= own.num_tokens
    words = _words(model, seq_id, at, event.token_id if is_new else None)
    # In a single row, the text moves in jumps of half a row.
    rows = _packed(words, width if height > 1 else max(width // 2, 1))
    here = next((i for i, row in enumerate(rows) if any(word.position == at for word in row)), 0)
    first = max(min(here - height // 2, len(rows) - height), 0)
    if height == 1 and here:
        rows, first = [[*rows[here - 1], *rows[here]]], 0
    lines = []
    for packed in rows[first : first + height]:
        row = Row(width)
        for word in packed:
            put_word(row, word.text, word.style, word.target)
        lines.append(row.line())
    return lines


def _words(model: DashboardModel, seq_id: str, at: int, upcoming: int | None) -> list[_Word]:
    """upcoming: the token at position `at`, if the sequence does not have it yet"""
    judged = model.explanations.judged.get(seq_id, [])
    percents = {token.position: token.percent for token in judged}
    tokens = _tokens(model, seq_id) or [(token.position, token.token_id) for token in judged]
    tokens = [pair for pair in tokens if pair[0] < at or upcoming is None]
    first_output = percents and judged[0].position
    pieces, words = model.fold.token_pieces, []
    sequence = model.fold.sequences.get(seq_id)
    num_prompt = first_output if sequence is None else sequence.num_prompt_tokens
    for position, token_id in tokens:
        text = clean(pieces.get(token_id, f" {token_id}"))
        style = "muted" if position < num_prompt else confidence_style(percents.get(position))
        target = token(seq_id, position) if position in percents else None
        words.append(_Word(position, text, "accent*!" if position == at else style, target))
    if upcoming is not None:
        text = clean(pieces.get(upcoming, f" {upcoming}"))
        words.append(_Word(at, text, "accent*!", None))
    elif not words or words[-1].position < at:
        words.append(_Word(at, " ? ", "accent*!", None))
    return words


def _tokens(model: DashboardModel, seq_id: str) -> list[tuple[int, int]]:
    """(Position, id) of a live sequence's last tokens. The first one moves in jumps."""
    sequence = model.fold.sequences.get(seq_id)
    if sequence is None:
        return []
    start = max(sequence.num_prompt_tokens - _PROMPT_TOKENS, 0)
    if sequence.num_tokens - start > 2 * TOKENS_KEPT:
        start = (sequence.num_tokens // TOKENS_KEPT - 1) * TOKENS_KEPT
    prompt = model.fold.requests[sequence.request_id].prompt_token_ids[start:]
    output = sequence.output_token_ids[max(start - sequence.num_prompt_tokens, 0) :]
    return list(enumerate([*prompt, *output], start))


def _packed(words: list[_Word], width: int) -> list[list[_Word]]:
    rows, room = [[]], width
    for word in words:
        cells = cell_len(word.text)
        if cells > room and rows[-1]:
            rows.append([])
            room = width
        rows[-1].append(word)
        room -= cells
    return rows
