"""The panels of `attach --vllm`. A number that vLLM does not report is drawn as `unknown`.

A quantile is drawn as a range: a histogram gives only the two boundaries around it.
"""

import math
from typing import ClassVar

from minivllm.text import clean
from minivllm.tui.draw.lines import Line, Row, Span
from minivllm.tui.vllm.source import VllmSource
from minivllm.tui.vllm.vllm_view import NamedBlock, Quantile, VllmView
from minivllm.tui.widgets.frame.panel import Panel

UNKNOWN: Span = ("unknown", "faint")


def number(value: float | None, unit: str = "") -> Span:
    if value is None:
        return UNKNOWN
    return (
        f"{value:,.0f}{unit}" if value == int(value) or value >= 100 else f"{value:,.1f}{unit}",
        "text*",
    )


def percent(value: float | None) -> Span:
    return UNKNOWN if value is None else (f"{value:.1%}", "text*")


def between(quantile: Quantile | None) -> Span:
    """A quantile as text, such as `25–50 ms` or `over 80 s`."""
    if quantile is None:
        return UNKNOWN
    scale, unit = (1, "s") if quantile.low >= 1 or quantile.high > 1 else (1000, "ms")
    low = f"{quantile.low * scale:g}"
    return (
        (
            f"over {low} {unit}"
            if math.isinf(quantile.high)
            else f"{low}–{quantile.high * scale:g} {unit}"
        ),
        "text*",
    )


def labelled(width: int, *pairs: tuple[str, Span]) -> Line:
    row = Row(width)
    for label, (text, style) in pairs:
        row.put(f"{label} ", "muted").put(text, style).put("   ")
    return row.line()


class VllmPanel(Panel):
    """A panel that works without a `DashboardApp`."""

    plain = False


class VllmHeader(VllmPanel):
    """The top line: the server's model and address, and whether the server answers."""

    HELP_TITLE = "Top line"

    def __init__(self, source: VllmSource, *, id: str) -> None:
        super().__init__(id=id)
        self._source = source

    def lines(self, model: VllmView, width: int, height: int) -> list[Line]:
        status = self._source.status
        names = ", ".join(map(clean, model.scrape.models)) if model.scrape is not None else ""
        row = Row(width).put(" vLLM  ", "accent*").put(f"{names or 'unknown model'}   ")
        if status.state == "live":
            return [row.put("● LIVE", "good*").put(f"   {clean(self._source.url)}", "muted").line()]
        return [row.put(f" {clean(status.text)} ", "bad*!").line()]


class VllmLoad(VllmPanel):
    HELP_TITLE = "Load"

    def lines(self, model: VllmView, width: int, height: int) -> list[Line]:
        return [
            labelled(
                width,
                ("running", number(model.value("num_requests_running"))),
                ("waiting", number(model.value("num_requests_waiting"))),
                ("preempted so far", number(model.value("num_preemptions_total"))),
            ),
            labelled(
                width,
                ("prompt", number(model.rate("prompt_tokens_total"), " tokens/s")),
                ("output", number(model.rate("generation_tokens_total"), " tokens/s")),
                ("finished", number(model.rate("request_success_total"), "/s")),
            ),
        ][:height]


class VllmMemory(VllmPanel):
    HELP_TITLE = "KV cache"

    def lines(self, model: VllmView, width: int, height: int) -> list[Line]:
        usage = {} if model.scrape is None else model.scrape.kv_cache_usage
        lines = [self._bar(engine, share, width) for engine, share in sorted(usage.items())]
        lines = lines or [labelled(width, ("in use", UNKNOWN))]
        hits = model.share("prefix_cache_hits_total", "prefix_cache_queries_total")
        lines.append(
            labelled(width, ("blocks", number(model.num_blocks)), ("prefix hits", percent(hits)))
        )
        return lines[:height]

    def _bar(self, engine: str, share: float, width: int) -> Line:
        room = max(width - 24, 4)
        filled = round(min(max(share, 0.0), 1.0) * room) if math.isfinite(share) else 0
        row = Row(width).put(f"engine {clean(engine)} ", "muted")
        return (
            row.put("█" * filled, "accent")
            .put("·" * (room - filled), "faint")
            .put(f" {share:6.1%}", "text*")
            .line()
        )


class VllmLatency(VllmPanel):
    HELP_TITLE = "Latency: median, 90 % and 99 % of the last 30 s"
    ROWS: ClassVar = (
        ("first token", "time_to_first_token_seconds"),
        ("between tokens", "inter_token_latency_seconds"),
        ("waiting", "request_queue_time_seconds"),
        ("whole request", "e2e_request_latency_seconds"),
    )

    def lines(self, model: VllmView, width: int, height: int) -> list[Line]:
        lines = []
        for label, histogram in self.ROWS:
            row = Row(width).put(label, "muted", width=16)
            for share in (0.5, 0.9, 0.99):
                row.put(*between(model.quantile(histogram, share)), width=16)
            lines.append(row.line())
        return lines[:height]


class VllmBlocks(VllmPanel):
    """The prefix cache as chains of names. vLLM does not report which request owns a block."""

    HELP_TITLE = "Prefix cache: block hashes, as they were stored"

    def __init__(self, source: VllmSource, *, id: str) -> None:
        super().__init__(id=id)
        self._source = source

    def lines(self, model: VllmView, width: int, height: int) -> list[Line]:
        status = self._source.kv_status
        if status is None:
            return [Row(width).put("unknown without --kv-events tcp://HOST:5557", "faint").line()][
                :height
            ]
        if model.last_number is None:
            return [Row(width).put(clean(status.text), "faint").line()][:height]
        return [*self._sums(model, width), *self._grid(model, width, height)][:height]

    def _sums(self, model: VllmView, width: int) -> list[Line]:
        known = f"{len(model.blocks):,} hash{'' if len(model.blocks) == 1 else 'es'}"
        sure = "all hashes are known" if model.knows_all_names else "earlier hashes are unknown"
        lines = [
            Row(width)
            .put(known, "text*")
            .put(f", {sure}", "text" if model.knows_all_names else "warn")
            .line(),
            labelled(
                width, ("stored", number(model.num_stored)), ("removed", number(model.num_removed))
            ),
        ]
        doubts = [
            (model.num_unsure, "perhaps gone (?)"),
            (model.num_unknown_removed, "removed that were stored earlier"),
            (model.num_lost_batches, "batches lost"),
            (model.num_unknown_kinds, "events of unknown kinds"),
        ]
        doubt_text = ", ".join(f"{count:,} {what}" for count, what in doubts if count)
        return [*lines, *([Row(width).put(doubt_text, "warn").line()] if doubt_text else [])]

    def _grid(self, model: VllmView, width: int, height: int) -> list[Line]:
        """The newest block names that fit. Each chain starts a new row."""
        rows: list[list[Span]] = [[]]
        previous = None
        for (_, name), block in list(model.blocks.items())[-width * height :]:
            if rows[-1] and (len(rows[-1]) >= width or block.parent != previous):
                rows.append([])
            rows[-1].append(_cell(block, model))
            previous = name
        return [tuple(row) for row in rows[-max(height - 3, 1) :]]


def _cell(block: NamedBlock, model: VllmView) -> Span:
    if block.unsure:
        return "?", "warn*"
    is_new = block.batch == model.last_number
    # The sign depends on the parent: none (the start of a chain), known, or unknown.
    if block.parent is None:
        return "┌", "good*" if is_new else "accent*"
    is_known = (block.medium, block.parent) in model.blocks
    return ("■" if is_known else "╴"), "good*" if is_new else "cached"


class VllmUnknown(VllmPanel):
    HELP_TITLE = "What vLLM does not report"
    QUESTIONS: ClassVar = (
        "which request holds which block, and which blocks are shared",
        "why a request waits, and what it needs",
        "which request was preempted, and for which other one",
        "how a step's token budget was divided",
        "the order in which blocks will be reused",
    )

    def lines(self, model: VllmView, width: int, height: int) -> list[Line]:
        rows = (Row(width).put("? ", "faint").put(question, "muted") for question in self.QUESTIONS)
        return [row.line() for row in rows][:height]
