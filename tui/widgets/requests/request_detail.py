"""Panel for one request: facts, phases as sentences, prompt and text.

The sequence can be live (in the fold), finished (in the fold's history) or known only by its record
in the ledger. Facts come first, and only the end of a long text is shown: prompt and output can
have thousands of words.
"""

from rich.cells import cell_len

from minivllm.events.ledger import PhaseStart, SequenceEnd, SequencePhase, SequenceRecord
from minivllm.events.state import FinishedSequence
from minivllm.text import clean, id_ranges, plural, short_name
from minivllm.tui.answers.why_waited import causes_of_wait
from minivllm.tui.draw.lines import Line, Row, Span, flow, joined, line, text_of, wrap, wrap_tail
from minivllm.tui.state.decisions import sampling_words, whose_need
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.draft_words import acceptance
from minivllm.tui.widgets.requests.slot_words import put_text
from minivllm.tui.widgets.requests.timelines import in_order, state_of

_LONGEST_TABLE = 128
"""Maximum number of blocks to list; the newest blocks of the table are listed."""
_TWO_COLUMNS = 100
"""Minimum width to draw the facts beside the texts and not above them."""


class RequestDetail(Panel):
    HELP_TITLE = "Chosen request"
    HELP_TEXT = (
        "The selected sequence, or else the first running one: its parameters, its tokens"
        " from the prefix cache, its preemptions, its phases with their start times, its"
        " prompt and its text. If a text is longer than the panel, its end is shown. With"
        " speculative decoding, also how many of its drafts were right, with a bar for each of the"
        " last steps; drafted words are underlined, wrong drafts are struck out."
    )
    KEYS = ("engine.tokens", "engine.abort")

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        chosen = self.selection.seq_id
        record = shown_record(model, chosen)
        if record is None:
            unknown = f"{short_name(chosen or '')} is not known at this moment"
            return [line(width, (unknown if chosen else "no request yet", "faint"))]
        if width < _TWO_COLUMNS:
            # The texts are the main content, so they get at least half of the rows.
            facts = _facts(model, record, width, max(height - max(height // 2, 3), 1))
            return (facts + _texts(model, record, width, height - len(facts)))[:height]
        left = min(width * 2 // 5, 64)
        texts = _texts(model, record, width - left - 2, height)
        return _beside(_facts(model, record, left, height), left, texts)


def shown_record(model: DashboardModel, chosen: str | None) -> SequenceRecord | None:
    """The selected sequence; else the first running, the first waiting or the newest one."""
    records = model.ledger.sequences
    if chosen is not None:
        return records.get(chosen)
    for seq_id in (*model.fold.running[:1], *model.fold.waiting[:1]):
        if seq_id in records:
            return records[seq_id]
    ordered = in_order(model)
    return ordered[-1] if ordered else None


# ---- facts ----


def _facts(model: DashboardModel, record: SequenceRecord, width: int, height: int) -> list[Line]:
    """Facts in at most `height` rows. If there are too many, the newest phases and the waits."""
    letter = model.letter(record.seq_id)
    word, style = state_of(record)
    head = Row(width).put(f"{letter or ' '} ", f"{model.hue(letter)}*")
    head.put(f"{short_name(record.seq_id)} ", "text*").put(word, style)
    sequence = model.fold.sequences.get(record.seq_id)
    if sequence is not None and sequence.slot is not None:
        head.put(f" in slot {sequence.slot}", "muted")
    numbers = [head.line(), *_wrapped(_numbers(model, record), width)]
    if len(numbers) > height:
        numbers[height - 1 :] = [line(width, *numbers[height - 1], (" …", "muted"))]
    said, room = _phases(model, record), height - len(numbers)
    rows = _wrapped(said, width)
    if len(rows) > room:
        # Waits and preemptions are why one reads this: fold what runs between them.
        waits = _wrapped([span for span in said[:-1] if span[1] != "muted"], width)
        rows = [line(width, ("…", "muted")), *_wrapped(said[-1:], width)]
        rows = [*waits[: max(room - len(rows), 0)], *rows]
    return numbers + rows[len(rows) - min(room, len(rows)) :]


def _wrapped(sentences: list[Span], width: int) -> list[Line]:
    return [
        line(width, (row, style)) for sentence, style in sentences for row in wrap(sentence, width)
    ]


def _numbers(model: DashboardModel, record: SequenceRecord) -> list[Span]:
    sentences: list[Span] = []
    sequence = model.fold.sequences.get(record.seq_id)
    done = _finished(model, record.seq_id)
    if clean(record.request.request_id) not in short_name(record.seq_id):
        sentences.append((clean(record.request.request_id), "muted"))
    if sequence is not None:
        request = model.fold.requests[sequence.request_id]
        count = len(request.seq_ids)
        siblings = f", {plural(count, 'sequence')}" if count > 1 else ""
        # A resumed sequence also finds output tokens, which the top line's hits do not count.
        again = sequence.num_preemptions > 0
        cached = record.num_cached_tokens if again else sequence.num_cached_tokens
        numbers = (
            f"{plural(sequence.num_prompt_tokens, 'prompt token')}, {cached:,} from the cache;"
            f" {len(sequence.output_token_ids):,} of at most {request.max_tokens:,} output tokens;"
            f" {sequence.num_computed_tokens:,} computed; priority {request.priority}{siblings}"
        )
        sentences.append((numbers, "text"))
        if again and sequence.num_cached_tokens:
            found = f"{plural(sequence.num_cached_tokens, 'token')} found again in the cache"
            sentences.append((f"{found} after its preemption", "text"))
        if request.sampling is not None:
            sentences.append((sampling_words(request.sampling), "muted"))
    elif done is not None:
        in_all = plural(done.num_tokens, "token")
        sentences.append((f"{in_all} in all, {record.num_tokens:,} of them output", "text"))
    pace = model.pace
    times = [
        (pace.first_token(record), "to its first token"),
        (pace.later_tokens(record), "per token after that"),
    ]
    if said := ", ".join(f"{pace.words(time)} {what}" for time, what in times if time is not None):
        sentences.append((said, "text"))
    drafts = model.drafts.by_seq.get(record.seq_id)
    if drafts is not None:
        sentences.append((acceptance(drafts), "good" if drafts.num_accepted else "warn"))
    if sequence is not None and sequence.block_table:
        sentences.append((f"blocks {id_ranges(sequence.block_table[-_LONGEST_TABLE:])}", "muted"))
    return sentences


def _phases(model: DashboardModel, record: SequenceRecord) -> list[Span]:
    sentences, preemptions = [], iter(record.preemptions)
    untils = [*record.phases[1:], record.end or model.fold]
    for start, until in zip(record.phases, untils, strict=True):
        words = _WORDS[start.phase]
        if start is record.phases[0] and record.is_fork:
            words = "is forked and decodes"
        # It also has a token in the step of its end; a fork begins after its first step.
        runs = start.phase in ("prefill", "decode") and start is not record.phases[0]
        if num_steps := until.step - start.step + (runs and until is untils[-1]):
            first, end = record.first_token, until.t
            if start.phase == "prefill" and first is not None and start.t <= first <= end:
                end = first  # without a slowed run's pause before the first decode
            words += f" for {plural(num_steps, 'step')}"
            words += f", {model.pace.words(end - start.t)}" if model.pace.is_timed else ""
            words += " so far" if until is model.fold else ""
        style = "muted"
        if start.phase == "preempted":
            words, style = f"{words}: {whose_need(next(preemptions))}", "bad"
        elif start.phase == "queued":
            causes, _ = causes_of_wait(model, record.seq_id, [(start.step, until.step)])
            words, style = words + causes, "warn" if causes else style
        sentences.append((_when(model, start) + words, style))
    if record.end is not None:
        is_cut = record.end.reason == "length"
        limit = f" of {plural(record.num_tokens, 'output token')}" if is_cut else ""
        words = f"{_when(model, record.end)}ends: {state_of(record)[0]}{limit}"
        sentences.append((words, "muted"))
    return sentences


_WORDS: dict[SequencePhase, str] = {
    "queued": "arrives and waits", "prefill": "prefill", "decode": "decodes",
    "preempted": "is preempted and waits",
}  # fmt: skip


def _when(model: DashboardModel, moment: PhaseStart | SequenceEnd) -> str:
    time = model.pace.moment(moment.t).removeprefix(" at ")
    return f"step {moment.step:,} ({time}): " if time else f"step {moment.step:,}: "


def _finished(model: DashboardModel, seq_id: str) -> FinishedSequence | None:
    return next((done for done in reversed(model.fold.history) if done.seq_id == seq_id), None)


# ---- texts ----


def _texts(model: DashboardModel, record: SequenceRecord, width: int, height: int) -> list[Line]:
    """Prompt and output of a sequence; nothing if they are no longer known."""
    sequence = model.fold.sequences.get(record.seq_id)
    known = sequence or _finished(model, record.seq_id)
    if known is None or height <= 0:
        return []
    given = known.prompt if sequence is None else model.fold.requests[sequence.request_id].prompt
    output = _output(model, record.seq_id, known.text, width, max(height - 1, 1))
    if height < 4:
        return output[-height:]
    prompt = wrap_tail(given or "unknown: it was given as token ids", width, height)
    # The prompt gets a third of the rows and the output the rest. Either can use spare rows of
    # the other.
    room = height - 2
    for_prompt = min(len(prompt), max(room // 3, room - len(output), 1))
    for_output = max(room - for_prompt, 0)
    if for_prompt < len(prompt):
        prompt = wrap_tail(given or "", width, for_prompt)
    lines = [
        line(width, ("prompt", "accent*")),
        *_styled(prompt, "muted", width),
        line(width, ("text", "accent*")),
    ]
    return lines + (output[-for_output:] if for_output else [])


def _output(model: DashboardModel, seq_id: str, text: str, width: int, height: int) -> list[Line]:
    """The end of the text, with a mark on each word that was drafted."""
    if seq_id in model.drafts.by_seq and seq_id in model.fold.sequences:
        row = Row(width * height)
        put_text(row, model, seq_id, confidence=False, past=True)
        return flow(joined(row.line()), width, indent=0)[-height:]
    return _styled(wrap_tail(text, width, height) if text else ["nothing yet"], "text", width)


def _styled(rows: list[str], style: str, width: int) -> list[Line]:
    return [line(width, (row, style)) for row in rows]


def _beside(left: list[Line], width: int, right: list[Line]) -> list[Line]:
    rows = []
    for y in range(max(len(left), len(right))):
        left_row = left[y] if y < len(left) else ()
        gap = width + 2 - cell_len(text_of(left_row))
        rows.append((*left_row, (" " * gap, "text"), *(right[y] if y < len(right) else ())))
    return rows
