"""Panel for one of two compared recordings: its state at the current moment, and its policy."""

from pathlib import Path

from minivllm.events.kv_usage import KVUsage, KVUsageMeter
from minivllm.events.types import LogHeader
from minivllm.text import clean, short_name
from minivllm.tui.draw.lines import Line, Row, Span, first_that_fits, line, packed
from minivllm.tui.draw.selection import sequence
from minivllm.tui.state.decisions import deferral
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.state.pace import rate_words
from minivllm.tui.time.follow import seconds_at
from minivllm.tui.time.transport import Transport
from minivllm.tui.widgets.blocks.blockmap import BlockMap
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.slots import Slots
from minivllm.tui.widgets.steps.budget import budget_bar

_ROOM_FOR_WORDS = 12
"""Rows of a side from which it has sentences."""
_MOST_FACTS = 3
_GAP = "   "


class Side(Panel):
    HELP_TITLE = "One of two recordings"
    HELP_TEXT = (
        "The state of a recording at the same step or second as the other (S), its policy, with"
        " ≠ where the other one differs, the last plan as a bar as wide as the token budget, the"
        " block map, and in free rows the running sequences. w answers for the side with the focus."
        " Waste is memory that is allocated but holds no token, as a share of all allocated memory."
    )

    def __init__(self, label: str, *, is_second: bool, id: str | None = None) -> None:
        super().__init__(id=id)
        self._label = label
        self._is_second = is_second
        # These are never mounted: only their `lines` are drawn, in the remaining rows.
        self._map = BlockMap(shows_words=False)
        self._slots = Slots()

    def title(self, model: DashboardModel, width: int) -> str:
        race = self.context.race
        if self.context.behind is not None and race is not None:
            yours = "" if race.names == race.asked else f" (your {'BA'[self._is_second]})"
            return f"{self._label}{yours}: {clean(race.names[self._is_second])}"
        own, other = self._transports()
        is_file = own.source.status.state in ("recording", "indexing")
        name = clean(Path(own.recording.name).stem) if is_file else ""
        name = name or ("the second one" if self._is_second else "this run")
        if other is None:
            return f"{self._label}: {name}"
        facts = different(own.recording.header, other.recording.header)
        how = [value if name in _NAMELESS else f"{name} {value}" for name, value in facts.items()]
        return f"{self._label}: {', '.join([name, *how[:_NAMED]])}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        _, other = self._transports()
        self._map.context = self.context
        header, views = (None, []) if other is None else (other.recording.header, [other.view])
        size = len(model.fold.blocks)
        self._map.beside = [view for view in views if len(view.fold.blocks) == size]
        facts = packed(_policy(model.header, header), width, 9, gap=_GAP)
        lines = self._state(model, width, height)
        # Leave some rows for the map: drop options from the end, where the sides are equal.
        lines += facts[: max(min(height - len(lines) - 6, _MOST_FACTS), 1)]
        lines += budget_bar(model, width, rows=1)
        return [*lines, *self._map_and_slots(model, width, height - len(lines))][:height]

    def _map_and_slots(self, model: DashboardModel, width: int, room: int) -> list[Line]:
        """The block map and, in the free rows above its legend, the running sequences."""
        rows = self._map.lines(model, width, room)
        num_drawn = next((at for at in range(len(rows) - 1, 0, -1) if rows[at - 1]), 0)
        size = model.max_num_seqs
        if len(rows) - 1 - num_drawn > size:
            rows[-1 - size : -1] = self._slots.lines(model, width, size)
        return rows

    def _transports(self) -> tuple[Transport, Transport | None]:
        first, second = self.context.transport, self.context.second
        return (second, first) if self._is_second else (first, second)

    def _state(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        """The numbers of this moment, in sentences if there is room and something to compare."""
        own, other = self._transports()
        status, usage = self._status(model, own), usage_of(model)
        if other is None or height < _ROOM_FOR_WORDS:
            return packed(status, width, 9, gap=_GAP)[:3]
        waste = wasted(usage, model.header, width)
        rate = line(width, *speed(model, seconds_at(own)))
        return [rate, waste, *waiting(model, width), *packed(status, width, 9, gap=_GAP)[:1]]

    def _status(self, model: DashboardModel, own: Transport) -> list[Line]:
        fold, counters = model.fold, model.fold.counters
        end = " ■ END" if own.is_over else ""
        run, wait = (f"{len(names)}" for names in (fold.running, fold.waiting))
        numbers = (
            (f"{counters.generation_tokens:,}", " tokens"),
            (f"{counters.finished_requests:,}", " done"),
            (f"{counters.num_preemptions:,}", " preempted"),
        )
        facts: list[Line] = [
            (("step ", "muted"), (f"{fold.step:,}", "text*"), (end, "warn")),
            ((run, "text*"), (" run ", "muted"), (wait, "text*"), (" wait", "muted")),
            *(((number, "text*"), (words, "muted")) for number, words in numbers),
        ]
        if (usage := usage_of(model)) is not None:
            facts.append((("waste now ", "muted"), (f"{usage.waste:.0%}", "text*")))
        return facts


def usage_of(model: DashboardModel) -> KVUsage | None:
    """The memory usage of this moment, as the block map shows it; None while no sequence runs."""
    return KVUsageMeter(model.header, model.fold).now() if model.fold.running else None


def policy_of(header: LogHeader) -> dict[str, str]:
    """The options that influence a run, with readable names."""
    config = header.config
    drafts = config.get("speculative_config")
    facts = {
        "memory": config.get("kv_cache_allocator", "paged"),
        "batching": config.get("batching", "continuous"),
        "prefill": "chunked" if config.get("enable_chunked_prefill", True) else "whole prompts",
        "budget": header.max_num_batched_tokens,
        "slots": header.max_num_seqs,
        "drafts": "{method} {num_speculative_tokens}".format_map(drafts) if drafts else "off",
        "order": header.scheduling_policy,
        "prefix cache": "on" if header.enable_prefix_caching else "off",
        "blocks": f"{header.num_usable_blocks:,} × {header.block_size} tokens",
        "host": f"{header.num_cpu_blocks:,} blocks" if header.num_cpu_blocks else "none",
        "model": header.model,
        "weights": header.weights or None,
        "longest": header.max_model_len,
        "clock": header.clock,
        **{
            name.replace("_", " "): config.get(name)
            for name in ("batch_delay", "batch_size", "dtype", "device", "seed")
        },
    }
    if header.source:  # a recording of vLLM does not have all of them
        facts = {name: value for name, value in facts.items() if value is not None}
    return {name: clean(str(value))[-32:] for name, value in facts.items()}


_ALWAYS_SHOWN = (
    "memory", "batching", "prefill", "budget", "slots", "order", "prefix cache", "blocks",
)  # fmt: skip

_NAMELESS, _NAMED = ("memory", "batching"), 2
"""Options whose values say what they are, and how many options a title has."""


def different(header: LogHeader, other: LogHeader) -> dict[str, str]:
    """The options that differ, most important first."""
    own, others = policy_of(header), policy_of(other)
    return {name: value for name, value in own.items() if value != others.get(name, value)}


def _policy(header: LogHeader, other: LogHeader | None) -> list[list[Span]]:
    """The options that differ, then the others, most important first."""
    own, marked = policy_of(header), different(header, other or header)
    items = [
        [("≠ ", "warn*"), (f"{name} ", "muted"), (value, "warn*")] for name, value in marked.items()
    ]
    others = [name for name in _ALWAYS_SHOWN if name not in marked]
    return items + [[(f"{name} ", "faint"), (own[name], "muted")] for name in others]


_MUCH, _SOME = 0.5, 0.2
"""Waste from which its figure is red, or yellow."""


def speed(model: DashboardModel, seconds: float) -> list[Span]:
    """Output tokens per second.

    seconds: how long it took; unused on a virtual clock, where the steps count
    """
    time = seconds if model.pace.is_timed else model.fold.step
    rate = model.fold.counters.generation_tokens / time if time else 0.0
    figure = rate_words(rate) if time else "-"
    return [(figure, "accent*"), (f" output tokens per {model.pace.unit}", "muted")]


def wasted(usage: KVUsage | None, header: LogHeader, width: int) -> Line:
    """How much of the allocated memory holds no token, in blocks, memory and percent."""
    if usage is None or not usage.allocated:
        return line(width, ("no sequence is running", "muted"))
    taken, empty = (
        slots / header.block_size for slots in (usage.allocated, usage.allocated - usage.used)
    )
    size = f"{empty * header.block_bytes / 2**20:,.2f} MiB, " if header.block_bytes else ""
    blocks = f"{empty:,.1f} of {taken:,.0f} blocks"
    style = "bad*" if usage.waste >= _MUCH else "warn*" if usage.waste >= _SOME else "good*"
    amount = (f"{blocks} ({size}{usage.waste:.0%})", style)
    label = ("wasted: ", "muted")
    return first_that_fits(
        width,
        (label, amount, (" are allocated, but hold no token", "muted")),
        (label, amount, (" hold no token", "muted")),
        (label, amount),
        (label, (f"{blocks}, {usage.waste:.0%}", style)),
    )


def waiting(model: DashboardModel, width: int) -> list[Line]:
    """Who waits, and for what the first one waits: always two lines."""
    fold, names = model.fold, Row(width)
    if not fold.waiting:
        words = "nobody waits" if fold.running else "nobody runs or waits"
        return [names.put(words, "muted").line(), ()]
    names.put(f"{len(fold.waiting)} {'waits' if len(fold.waiting) == 1 else 'wait'}: ", "warn*")
    for number, seq_id in enumerate(fold.waiting):
        names.put(", " if number else "", "muted")
        names.put(short_name(seq_id), "text", target=sequence(seq_id))
    first = fold.waiting[0]
    why = fold.sequences[first].deferred
    if why is None:
        return [names.line(), ()]
    words = deferral(*why, fold.max_num_seqs), "text"
    next_one = f"{short_name(first)} is next: ", "muted"
    return [names.line(), first_that_fits(width, (next_one, words), (words,))]
