"""Rules for every panel: it stays in its room, is safe, can be ASCII and explains itself."""

import re

import pytest
from rich.cells import cell_len
from support.tui.memory_recording import context_of
from support.tui.shown import ROOMS, SCENARIOS

from minivllm.events import types as ev
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.portable import to_ascii
from minivllm.tui.draw.selection import block, event, sequence, step
from minivllm.tui.panels import _CLASSES, make_panel
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.cards import BlockCards
from minivllm.tui.widgets.compare.comparison import Comparison
from minivllm.tui.widgets.compare.side import Side
from minivllm.tui.widgets.events.event_detail import EventDetail
from minivllm.tui.widgets.events.event_list import EventList
from minivllm.tui.widgets.frame.header import Header
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.frame.timeline import TimeLine
from minivllm.tui.widgets.steps.charts import StepCharts
from minivllm.tui.widgets.steps.flat_batch import FlatBatch
from minivllm.tui.widgets.steps.step_detail import StepDetail

OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u200d\u202a-\u202e\u2066-\u2069]")
NARROWEST = 37
"""Some panels never shorten their first words; the screen cuts them off."""
HOSTILE = "x\x1b[31m\u202e\nevil: @\u2066\x9b2J" + "長" * 40


def all_panels() -> list[Panel]:
    sides = [Side("A", is_second=False), Side("B", is_second=True)]
    others = [Header(), TimeLine(), EventList(), EventDetail(), StepDetail()]
    others += [Comparison(), BlockCards(), StepCharts(), FlatBatch()]
    return [*map(make_panel, _CLASSES), *others, *sides]


def check(panels: list[Panel], model: DashboardModel) -> None:
    for panel in panels:
        assert panel.HELP_TITLE and panel.HELP_TEXT.endswith("."), panel
        for width, height in ROOMS:
            lines = panel.lines(model, width, height)
            assert len(lines) <= height, panel
            for text in map(text_of, lines):
                assert cell_len(text) <= width or width < NARROWEST, panel
                assert not OBEYED.search(text), panel
                assert to_ascii(text).count("?") == text.replace("長", "??").count("?"), panel


@pytest.mark.parametrize("scenario", SCENARIOS, indirect=True)
def test_every_panel_stays_in_its_room_and_has_ascii_for_its_signs(scenario) -> None:
    run = scenario.run(40)
    end, seq_id = run.events[-1], run.engine.inspect().running[0]
    table = run.engine.inspect().sequences[seq_id].block_table
    run.events.append(ev.AttentionMass(end.seq + 1, end.step, end.t, seq_id, [0.1] * len(table)))
    candidates = tuple(ev.TokenCandidate(i, 1.0, -1e9, 0.1, 0.1, 0.1, None, 1e9) for i in range(9))
    fields = (seq_id, 9, 3, 0.7, 99, 9, candidates)
    run.events.append(ev.TokenExplained(end.seq + 2, end.step, end.t, *fields))
    panels = all_panels()
    for part, targets in (
        (0.0, (None, block(900))),
        (0.3, (block(3), event(40))),
        (0.77, (step(12),)),
        (1.0, (sequence("r1.0"), None)),
    ):
        context = context_of(run, int(part * len(run.events)), other=run)
        context.event_filter = "evicted" if part == 0.3 else ""
        for panel in panels:
            panel.context = context
        for target in targets:
            context.selection.clear() if target is None else context.selection.choose(target)
            check(panels, context.transport.view)


def test_no_panel_passes_terminal_codes_on(stage, ask) -> None:
    answer = f"an\x07swer\r\n {HOSTILE} " * 9
    asks = [ask(f"{HOSTILE}{i}", HOSTILE * 9, answer, samples=2, max_tokens=30) for i in (0, 1, 2)]
    run = stage(asks, num_blocks=60, max_num_seqs=2).run(9)
    context, panels = context_of(run, other=run), all_panels()
    context.event_filter = "\x1b[2J[red]"
    for target in (sequence(f"{HOSTILE}0.0"), block(0), event(0)):
        context.selection.choose(target)
        for panel in panels:
            panel.context = context
        check(panels, context.transport.view)
