"""Pictures of docs/inside/architecture.md: the paths of a request and an event through the code.

A path (`Way`) is a list of stations, and each station is a function in the source.
tests/more/docs/test_architecture.py serves a request and checks that they are called in this order.
"""

from collections.abc import Iterator, Sequence
from inspect import getsource
from typing import NamedTuple

from page_text import ROOT

from minivllm.engine.core import EngineCore
from minivllm.lessons.site.markdown import with_region

PAGE = ROOT / "docs/inside/architecture.md"
WIDTH, BOX_WIDTH, BOX_HEIGHT, PITCH, TOP = 890, 168, 36, 50, 34


class Station(NamedTuple):
    lane: int
    """Index of the station's column."""
    target: str
    """`module:Class.method` or `module:function`."""
    note: str = ""
    """A few words next to the box: what this function passes on."""

    @property
    def name(self) -> str:
        return self.target.partition(":")[2]

    @property
    def file(self) -> str:
        return self.target.partition(":")[0].removeprefix("minivllm.").replace(".", "/") + ".py"


class Way(NamedTuple):
    """A picture of a path. lanes: names of the columns; stations: boxes from top to bottom"""

    name: str
    title: str
    lanes: Sequence[str]
    stations: Sequence[Station]
    brackets: Sequence[tuple[int, int, str]] = ()
    """First and last station of a part of the path, and the part's label in the margin."""


REQUEST = Way(
    "request",
    "The path of a request, from a prompt to its text",
    ("caller", "engine", "core", "runtime", "attention"),
    (
        Station(0, "minivllm.llm:LLM.generate", "a prompt"),
        Station(1, "minivllm.engine.engine:LLMEngine.add_request"),
        Station(2, "minivllm.core.scheduler:Scheduler.add_request", "the waiting queue"),
        Station(1, "minivllm.engine.engine:LLMEngine.step"),
        Station(1, "minivllm.engine.core:EngineCore.step"),
        Station(2, "minivllm.core.scheduler:Scheduler.schedule", "tokens per sequence"),
        Station(
            2, "minivllm.core.kv_cache_manager:KVCacheManager.allocate_slots", "blocks per sequence"
        ),
        Station(1, "minivllm.engine.runner:IsolatingRunner.execute_model"),
        Station(3, "minivllm.runtime.model_runner:ModelRunner.execute_model"),
        Station(3, "minivllm.runtime.input_batch:InputBatch.prepare", "the plan as tensors"),
        Station(3, "minivllm.runtime.model.decoder:Decoder.forward", "layer by layer"),
        Station(4, "minivllm.runtime.attention.torch_backend:TorchAttentionBackend.forward"),
        Station(
            3, "minivllm.runtime.sampling.sampler:Sampler.__call__", "a token for each sequence"
        ),
        Station(2, "minivllm.core.request:check_stop"),
        Station(1, "minivllm.engine.output_processor:OutputProcessor.append", "text"),
        Station(2, "minivllm.core.scheduler:Scheduler.finish", "its blocks become free"),
        Station(1, "minivllm.engine.output_processor:OutputProcessor.make_outputs"),
    ),
    ((3, 14, "one step, repeated"),),
)

EVENT = Way(
    "event",
    "The path of an event, from a decision to the screen",
    ("core", "events", "dashboard", "panel"),
    (
        Station(0, "minivllm.core.scheduler:Scheduler._admit", "a decision"),
        Station(1, "minivllm.events.bus:EventBus.emit"),
        Station(2, "minivllm.tui.time.transport:Transport.tick", "the next frame"),
        Station(2, "minivllm.tui.sources.in_process:InProcessSource.poll", "out of a deque"),
        Station(1, "minivllm.events.recording.log:LogWriter.write", "into a temporary file"),
        Station(1, "minivllm.events.recording.recording:Recording.index_more", "and back again"),
        Station(2, "minivllm.tui.state.model:DashboardModel.apply"),
        Station(1, "minivllm.events.fold:Fold.apply", "the state after it"),
        Station(3, "minivllm.tui.widgets.requests.slots:Slots.lines", "the state as lines"),
    ),
    ((0, 1, "engine's thread"), (2, 8, "dashboard's thread")),
)


def page() -> str:
    text = PAGE.read_text(encoding="utf-8")
    for way in (REQUEST, EVENT):
        text = with_region(text, way.name, draw_way(way))
    code = f"<!-- not run: part of a module -->\n```python\n{getsource(EngineCore)}```\n"
    return with_region(text, "step", code)


class Layout:
    """Where everything of a picture is, in the units of its viewBox."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._margin = 22 if way.brackets else 0
        self._lane_width = (WIDTH - self._margin) / len(way.lanes)
        self.height = TOP + PITCH * len(way.stations) + 4

    def middle(self, lane: int) -> float:
        return self._margin + self._lane_width * (lane + 0.5)

    def box(self, index: int) -> tuple[float, float]:
        """Return the upper left corner of a station's box."""
        left = self._margin + self._lane_width * self._way.stations[index].lane
        return round(left + (self._lane_width - BOX_WIDTH) / 2, 1), TOP + PITCH * index


def draw_way(way: Way) -> str:
    layout = Layout(way)
    names = ", then ".join(station.name for station in way.stations)
    return "\n".join(
        [
            '<figure markdown="0">',
            f'<svg class="arch way" viewBox="0 0 {WIDTH} {layout.height}" role="img"'
            f' xmlns="http://www.w3.org/2000/svg" aria-labelledby="way-{way.name}">',
            f'<title id="way-{way.name}">{way.title}: {names}.</title>',
            f'<defs><marker id="way-{way.name}-head" viewBox="0 0 10 10" refX="9" refY="5"'
            ' markerWidth="6" markerHeight="6" orient="auto"><path class="arch-head" d="M0 0L10'
            ' 5L0 10z"/></marker></defs>',
            *_draw_lanes(way, layout),
            *_draw_brackets(way),
            *_draw_arrows(way, layout),
            *_draw_boxes(way, layout),
            "</svg>",
            f"<figcaption>{way.title}.</figcaption>",
            "</figure>\n",
        ]
    )


def _draw_lanes(way: Way, layout: Layout) -> Iterator[str]:
    for lane, name in enumerate(way.lanes):
        middle = layout.middle(lane)
        yield f'<text x="{middle:.1f}" y="18" class="arch-name">{name}</text>'
        yield f'<path class="way-lane" d="M{middle:.1f} 26V{layout.height - 4}"/>'


def _draw_brackets(way: Way) -> Iterator[str]:
    for first, last, words in way.brackets:
        top, bottom = TOP + PITCH * first, TOP + PITCH * last + BOX_HEIGHT
        middle = (top + bottom) / 2
        yield f'<path class="way-bracket" d="M22 {top}H18V{bottom}H22"/>'
        yield (
            f'<text class="way-note" transform="translate(11 {middle:.1f})'
            f' rotate(-90)">{words}</text>'
        )


def _draw_arrows(way: Way, layout: Layout) -> Iterator[str]:
    for index in range(len(way.stations) - 1):
        (left, top), (next_left, next_top) = layout.box(index), layout.box(index + 1)
        x, next_x = left + BOX_WIDTH / 2, next_left + BOX_WIDTH / 2
        bend = top + BOX_HEIGHT + 6
        line = f"M{x:.1f} {top + BOX_HEIGHT}V{bend}H{next_x:.1f}V{next_top}"
        yield f'<path class="arch-use-line" d="{line}" marker-end="url(#way-{way.name}-head)"/>'


def _draw_boxes(way: Way, layout: Layout) -> Iterator[str]:
    for index, station in enumerate(way.stations):
        left, top = layout.box(index)
        middle = left + BOX_WIDTH / 2
        yield f'<rect x="{left}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>'
        yield f'<text x="{middle:.1f}" y="{top + 15}" class="way-name">{station.name}</text>'
        yield f'<text x="{middle:.1f}" y="{top + 28}" class="way-file">{station.file}</text>'
        if station.note:
            is_right = left + BOX_WIDTH + 8 + 5.5 * len(station.note) > WIDTH
            x, anchor = (left - 7, "end") if is_right else (left + BOX_WIDTH + 7, "start")
            yield (
                f'<text x="{x}" y="{top + 22}" class="way-note" style="text-anchor:'
                f' {anchor}">{station.note}</text>'
            )
