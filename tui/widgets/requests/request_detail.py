"""Panel for one request: facts, phases as sentences, prompt and text.

Shows the selected sequence, or else the first running one. The sequence can be live (in the fold),
finished (in the fold's history) or known only by its life. Prompt and output can have thousands of
words, so the facts come first, and only the end of a long text is shown.
"""

from typing import NamedTuple

from rich.cells import cell_len

from minivllm.events.state import FinishedSequence
from minivllm.text import clean, id_ranges, plural, short_name
from minivllm.tui.draw.lines import Line, Row, Span, line
from minivllm.tui.draw.wrap import wrap, wrap_tail
from minivllm.tui.state.decisions import sampling_words
from minivllm.tui.state.lives import Life, LifePhase
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.timelines import duration, first_token_after, in_order, state_of

_LONGEST_TABLE = 128
"""Maximum number of blocks to list; the newest blocks of the table are listed."""
_TWO_COLUMNS = 100
"""Minimum width to draw the facts beside the texts and not above them."""


class _Texts(NamedTuple):
    prompt: str | None
    output: str


class RequestDetail(Panel):
    HELP_TITLE = "Chosen request"
    HELP_TEXT = (
        "The selected sequence, or else the first running one: its parameters, its tokens"
        " from the prefix cache, its preemptions, its phases with their start times, its"
        " prompt and its text. If a text is longer than the panel, its end is shown."
    )

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        chosen = None if self.context is None else self.context.selection.seq_id
        life = shown_life(model, chosen)
        if life is None:
            words = (
                "no request yet"
                if chosen is None
                else f"{short_name(chosen)} is not known at this moment"
            )
            return [Row(width).put(words, "faint").line()]
        if width < _TWO_COLUMNS:
            # The texts are the main content, so they get at least half of the rows.
            facts = _facts(model, life, width, max(height - max(height // 2, 3), 1))
            return (facts + _texts(model, life, width, height - len(facts)))[:height]
        left = min(width * 2 // 5, 64)
        return _beside(
            _facts(model, life, left, height), left, _texts(model, life, width - left - 2, height)
        )


def shown_life(model: DashboardModel, chosen: str | None) -> Life | None:
    """The selected sequence's life; else that of the first running, first waiting or newest one."""
    lives = model.lives.by_sequence
    if chosen is not None:
        return lives.get(chosen)
    for seq_id in (*model.fold.running[:1], *model.fold.waiting[:1]):
        if seq_id in lives:
            return lives[seq_id]
    ordered = in_order(model)
    return ordered[-1] if ordered else None


# ---- facts ----


def _facts(model: DashboardModel, life: Life, width: int, height: int) -> list[Line]:
    """Facts in at most `height` rows. If there are too many, only the newest phases are shown."""
    letter = model.letter(life.seq_id)
    word, style = state_of(life)
    head = (
        Row(width)
        .put(f"{letter or ' '} ", f"{model.hue(letter)}*")
        .put(f"{short_name(life.seq_id)} ", "text*")
        .put(word, style)
    )
    sequence = model.fold.sequences.get(life.seq_id)
    if sequence is not None and sequence.slot is not None:
        head.put(f" in slot {sequence.slot}", "muted")
    numbers = [head.line(), *_wrapped(_numbers(model, life), width)][:height]
    phases = _wrapped(_phases(model, life), width)
    room = height - len(numbers)
    if len(phases) > room:
        phases = (
            [line(width, ("…", "muted")), *phases[len(phases) - room + 1 :]]
            if room > 1
            else phases[len(phases) - room :]
        )
    return numbers + phases


def _wrapped(sentences: list[Span], width: int) -> list[Line]:
    return [
        line(width, (row, style)) for sentence, style in sentences for row in wrap(sentence, width)
    ]


def _numbers(model: DashboardModel, life: Life) -> list[Span]:
    sentences: list[Span] = []
    sequence = model.fold.sequences.get(life.seq_id)
    done = _finished(model, life)
    if clean(life.request_id) not in short_name(life.seq_id):
        sentences.append((clean(life.request_id), "muted"))
    if sequence is not None:
        request = model.fold.requests[sequence.request_id]
        siblings = (
            f", {plural(len(request.seq_ids), 'sequence')}" if len(request.seq_ids) > 1 else ""
        )
        sentences.append(
            (
                f"{plural(sequence.num_prompt_tokens, 'prompt token')}, "
                f"{sequence.num_cached_tokens:,} from the cache; "
                f"{len(sequence.output_token_ids):,} of at most "
                f"{request.max_tokens:,} output tokens; "
                f"{sequence.num_computed_tokens:,} computed; priority {request.priority}{siblings}",
                "text",
            )
        )
        if request.sampling is not None:
            sentences.append((sampling_words(request.sampling), "muted"))
    elif done is not None:
        which = "since it was forked" if life.phases[0][2] == "decode" else "of them output"
        sentences.append(
            (f"{plural(done.num_tokens, 'token')} in all, {life.num_tokens:,} {which}", "text")
        )
    times = [
        (first_token_after(life), "to its first token"),
        (life.time_per_output_token, "per token after that"),
    ]
    if said := ", ".join(f"{duration(time)} {what}" for time, what in times if time is not None):
        sentences.append((said, "text"))
    if sequence is not None and sequence.block_table:
        sentences.append((f"blocks {id_ranges(sequence.block_table[-_LONGEST_TABLE:])}", "muted"))
    return sentences


def _phases(model: DashboardModel, life: Life) -> list[Span]:
    sentences = []
    now = model.fold.step, model.fold.t
    for number, (step, t, phase) in enumerate(life.phases):
        last = number + 1 == len(life.phases)
        until = (life.end[:2] if life.end else now) if last else life.phases[number + 1][:2]
        words = _WORDS[phase] if number or phase != "decode" else "is forked and decodes"
        if phase == "preempted" and life.preemption is not None and life.preemption.step == step:
            whom = life.preemption.victim_of
            words = (
                "is preempted for"
                f" {'itself' if whom == life.preemption.seq_id else short_name(whom)} and waits"
            )
        lasted = (
            f" for {plural(until[0] - step, 'step')}, {duration(until[1] - t)}"
            if until[0] > step
            else ""
        )
        going_on = " so far" if lasted and last and life.end is None else ""
        sentences.append(
            (
                _when(model, step, t) + words + lasted + going_on,
                "bad" if phase == "preempted" else "muted",
            )
        )
    if life.end is not None:
        limit = f" of {plural(life.num_tokens, 'output token')}" if life.end[2] == "length" else ""
        sentences.append(
            (_when(model, *life.end[:2]) + f"ends: {state_of(life)[0]}{limit}", "muted")
        )
    return sentences


_WORDS: dict[LifePhase, str] = {
    "queued": "arrives and waits", "prefill": "prefill", "decode": "decodes",
    "preempted": "is preempted and waits",
}  # fmt: skip


def _when(model: DashboardModel, step: int, t: float) -> str:
    return f"step {step:,} ({t - model.header.mono:,.2f} s): "


def _finished(model: DashboardModel, life: Life) -> FinishedSequence | None:
    return next((done for done in reversed(model.fold.history) if done.seq_id == life.seq_id), None)


# ---- texts ----


def texts_of(model: DashboardModel, life: Life) -> _Texts | None:
    """Prompt and output of a sequence; None if they are no longer known."""
    sequence = model.fold.sequences.get(life.seq_id)
    if sequence is not None:
        return _Texts(model.fold.requests[sequence.request_id].prompt, sequence.text)
    done = _finished(model, life)
    return None if done is None else _Texts(done.prompt, done.text)


def _texts(model: DashboardModel, life: Life, width: int, height: int) -> list[Line]:
    texts = texts_of(model, life)
    if texts is None or height <= 0:
        return []
    output = wrap_tail(texts.output, width, max(height - 1, 1)) if texts.output else ["nothing yet"]
    if height < 3:
        return _styled(output[-height:], "text", width)
    prompt = (
        ["unknown: it was given as token ids"]
        if texts.prompt is None
        else wrap_tail(texts.prompt, width, height)
    )
    # The prompt gets a third of the rows and the output the rest; each can use the other's spare
    # rows.
    room = height - 2
    for_prompt = min(len(prompt), max(room // 3, room - len(output), 1))
    for_output = max(room - for_prompt, 0)
    if for_prompt < len(prompt):
        prompt = wrap_tail(texts.prompt or "", width, for_prompt)
    lines = [
        line(width, ("prompt", "accent*")),
        *_styled(prompt, "muted", width),
        line(width, ("text", "accent*")),
    ]
    return lines + _styled(output[-for_output:] if for_output else [], "text", width)


def _styled(rows: list[str], style: str, width: int) -> list[Line]:
    return [line(width, (row, style)) for row in rows]


def _beside(left: list[Line], width: int, right: list[Line]) -> list[Line]:
    rows = []
    for y in range(max(len(left), len(right))):
        one = left[y] if y < len(left) else ()
        gap = width + 2 - sum(cell_len(text) for text, _ in one)
        rows.append((*one, (" " * gap, "text"), *(right[y] if y < len(right) else ())))
    return rows
