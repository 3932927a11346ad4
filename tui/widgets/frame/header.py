"""The top line: model, progress, speed, and whether the picture is live."""

from collections.abc import Iterator

from rich.cells import cell_len

from minivllm.text import clean, format_memory, plural
from minivllm.tui.draw.lines import Line, Row, Span, text_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.state.pace import rate_words
from minivllm.tui.widgets.frame.panel import Panel

_ROOM_FOR_FACTS = 40
"""Columns for the model's name and the step; a long status must not take them. Narrower lines have
only short statuses."""
_ROOM_FOR_BLOCKS = 60
_ROOM_FOR_LABELS = 140
"""On a narrower line, beside the tabs, there are fewer numbers."""

_QUIET_SECONDS = 10
"""Warn if a remote source sends no event for this long. A local engine reports its own pause."""


class Header(Panel, can_focus=False):
    """If the line is too narrow, the last facts are left out."""

    HELP_TITLE = "Top line"
    HELP_TEXT = (
        "The model, the type of the weights in its files (in memory they can be wider),"
        " the number of the last step, output tokens per second (per step on a"
        " virtual clock, as in lessons; slowed: most of each second is a pause between steps, as in"
        " the demo), and the share of prompt tokens that came from the prefix cache, without those"
        " of resumed sequences. The right end says LIVE, PAUSED, or that the engine runs on while"
        " the picture is paused. Blocks are in use, cached (free,"
        " but a prompt can still hit them) or empty; on a wide line, the memory of those in use."
        " weights: how many bytes of them a step reads, for one sequence as for many. On a narrow"
        " line, ↺ counts preemptions. A click on a number opens a screen with details; a click on the right end pauses or plays the"
        " picture, or resumes the engine."
    )

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        badge = self._badge(width)
        row = Row(width - cell_len(badge[0]) - 2)
        row.put(" minivllm  " if width >= 100 else "", "accent*")
        gap = "   " if width >= 100 else "  "
        for fact in self._facts(model, width):
            if cell_len(text_of(fact)) < row.room:
                row.add(*fact).put("", width=len(gap))
        row.put("", width=row.room)
        row.room += cell_len(badge[0]) + 2
        text, style = badge
        cure = "engine.pause" if self.context.engine_stands else "time.toggle"
        return [row.put(" ").put(text, style, target=f"app.command('{cure}')").put(" ").line()]

    def _badge(self, width: int) -> Span:
        if self.context.start is not None:
            return " LOADING ", "accent*!"
        transport, control = self.context.transport, self.context.engine
        status = transport.source.status
        # A complete file does not grow, and the time line already shows the position in it.
        moves_on = status.state in ("live", "lost") and transport.steps_behind
        behind = f", {plural(transport.steps_behind, 'step')} behind" if moves_on else ""
        if status.state == "lost":
            # Show the whole sentence only if the step still fits. A notification shows it anyway.
            words = [clean(status.text), "SOURCE LOST, TRYING AGAIN" if status.retries else ""]
            room = width - _ROOM_FOR_FACTS
            text = next((text for text in words if text and cell_len(text) <= room), "SOURCE LOST")
            return f" {text} ", "bad*!"
        if self.context.shows_the_end:
            return f" FINISHED{', PAUSED' * self.context.engine_stands} ", "good*!"
        match transport.state:
            case "paused" if not transport.is_over:
                return f" {self._paused(width)} ", "warn*!"
            case "playing":
                return f"▶ {transport.speed:g}×{behind}", "accent*"
        if self.context.engine_stands:
            return f" {self._paused(width)} ", "warn*!"
        match status.state:
            case "indexing":
                return f" {status.text} ", "accent*!"
            case "recording" if status.text:
                return "■ DAMAGED", "warn*"
            case "recording":
                return "■ END", "muted*"
            case "ended":
                return "■ ENDED", "warn*"
        # In a lesson the reader sets the pace.
        alone = control is None and self.context.lesson is None
        if alone and transport.quiet_seconds >= _QUIET_SECONDS:
            # The writer may be idle or dead: a file does not show which.
            quiet = int(transport.quiet_seconds)
            words = f"{quiet} s" if quiet < 60 else f"{quiet // 60} min"
            return f"● LIVE, no event for {words}", "warn*"
        return "● LIVE", "good*"

    def _paused(self, width: int) -> str:
        """What is paused: everything, or only the picture of an engine that runs on."""
        context, transport = self.context, self.context.transport
        step, newest = transport.view.fold.step, transport.recording.head.fold
        if context.finished is not None:
            return f"step {step:,} of {newest.step:,}"
        if width < _ROOM_FOR_BLOCKS:
            return "PAUSED"
        engine = None if context.engine is None else context.engine.state()
        is_remote = context.lesson is None and transport.source.status.state in ("live", "lost")
        if is_remote if engine is None else not engine.paused:
            does = "runs on" if newest.requests else "is idle"
            return f"step {step:,} of {newest.step:,}, engine {does}"
        inside = engine is not None and transport.state == "live" and engine.next_phase
        phase = f", before {inside}" if inside and inside != "schedule" else ""
        return f"PAUSED at step {step:,}{phase}"

    def _facts(self, model: DashboardModel, width: int) -> list[list[Span]]:
        counters = model.fold.counters
        facts: list[list[Span]] = []
        if counters.invariant_violations:
            violations = plural(counters.invariant_violations, "invariant violation")
            facts.append([(f" {violations.upper()} ", "bad*!")])
        status = self.context.transport.source.status
        if status.state == "recording" and status.text:
            facts.append([(" LOG DAMAGED ", "bad*!")])
        recorder = self.context.recorder
        if recorder is not None and recorder.loss is not None:
            facts.append([(f" NOT RECORDED FROM STEP {recorder.loss.step} ", "bad*!")])
        if model.fold.lost_events:
            facts.append([(f" {plural(model.fold.lost_events, 'event').upper()} LOST ", "bad*!")])
        dtype = clean(model.header.weights).partition(" ")[0]
        name = f" {clean(model.header.model)[-24:]}"
        if model.header.source:
            name += f" on {clean(model.header.source)}"
        has_room = dtype and width >= _ROOM_FOR_BLOCKS
        facts.append([(name, "text*"), (f" {dtype}" if has_room else "", "muted")])
        return facts if self.context.start is not None else [*facts, *self._numbers(model, width)]

    def _numbers(self, model: DashboardModel, width: int) -> Iterator[list[Span]]:
        counters, use, hits = model.fold.counters, model.pool_use(), model.hit_rate()
        # Beside a second recording, the numbers are those of the first one.
        side = [("A: ", "accent*")] if self.context.second is not None else []
        number = f"{model.fold.step:,}"
        yield _opens("scheduler", *side, ("step ", "muted"), (number, "text*"))
        blocks = [(use.used, "used"), (use.cached, "cached"), (use.empty, "empty")]
        counts = [span for count, word in blocks for span in _count(count, word)]
        label = "blocks " if width >= 100 else ""
        if width < _ROOM_FOR_BLOCKS:
            counts = [
                (f"{use.used:,}", "text*"),
                (f"/{model.header.num_usable_blocks:,} blocks", "muted"),
            ]
        yield _opens("blocks", (label, "muted"), *counts)
        # Without preemptions, the zero gives way to the bytes of weights that a step reads.
        preempted = _opens("requests", *_count(counters.num_preemptions, "preempted"))
        if counters.num_preemptions:
            short = _opens("requests", (f"↺{counters.num_preemptions:,}", "text*"))
            yield preempted if width >= _ROOM_FOR_BLOCKS else short
        if not side and (rate := model.rate()) is not None:
            is_timed = model.pace.is_timed  # looking for pauses takes a good part of a frame
            unit = "step" if not is_timed else "s, slowed" if model.is_slowed() else "s"
            yield _opens("scheduler", (rate_words(rate), "text*"), (f" tok/{unit}", "muted"))
        if hits is not None:
            where = " of new prompts" * (width >= _ROOM_FOR_LABELS or counters.num_preemptions > 0)
            yield _opens("blocks", ("hits ", "muted"), (f"{hits:.0%}", "text*"), (where, "muted"))
        if width >= _ROOM_FOR_LABELS and (num_bytes := model.header.bytes_per_token):
            yield [("weights ", "muted"), (format_memory(num_bytes), "text*"), ("/step", "muted")]
        if block_bytes := model.header.block_bytes:
            total = format_memory(model.header.num_usable_blocks * block_bytes)
            used = format_memory(use.used * block_bytes)
            kind = " int8" if model.header.kv_cache_dtype.startswith("int8") else ""
            yield _opens("blocks", (used, "text*"), (f" of {total}{kind}", "muted"))
        if not counters.num_preemptions:
            yield preempted
        yield _opens("blocks", *_count(counters.evicted_blocks, "evicted"))


def _opens(screen: str, *spans: Span) -> list[Span]:
    """A fact that opens a screen when the user clicks on it."""
    return [(*span, f"app.command('screen.{screen}')") for span in spans]


def _count(count: int, word: str) -> list[Span]:
    return [(f"{count:,}", "text*"), (f" {word} ", "muted")]
