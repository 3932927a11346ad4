"""The host map, the arrows between both memories, and the slot of a request that loads."""

from types import SimpleNamespace

import pytest
from support.engine.engine_fakes import prompt
from support.engine.random_histories import TieredEngine
from support.tui.drawn_blocks import expected_cells
from support.tui.shown import ROOMS, ask_why, moments, rows

from minivllm.events import types as ev
from minivllm.text import id_ranges
from minivllm.tui.answers.why import why_block
from minivllm.tui.draw.lines import width_of
from minivllm.tui.draw.selection import host_block
from minivllm.tui.panels import make_panel
from minivllm.tui.state.decisions import phrase
from minivllm.tui.widgets.blocks.cells import block_cells, signs
from minivllm.tui.widgets.blocks.hostmap import HostMap, _cells


@pytest.fixture
def two_memories() -> SimpleNamespace:
    """The prompt comes back when only the host has it, and its load takes three steps."""
    engine = TieredEngine(12, delay=lambda: 3, num_cpu_blocks=14)
    for name, token_ids in (("ada", prompt(18)), ("ben", [98] * 47), ("cleo", prompt(18))):
        engine.add(name, token_ids, max_tokens=1)
        engine.run()
    return SimpleNamespace(header=engine.engine.log_header(), events=engine.events)


def test_the_maps_and_their_arrows_are_those_of_the_fold(two_memories) -> None:
    stores, seen = {}, set()
    for model, event in moments(two_memories):
        fold, first = model.fold, signs(model, fades=False)
        stores = {} if isinstance(event, ev.StepBegin) else stores
        if isinstance(event, ev.KVStore):
            stores[event.host_block] = event.block_id
        cached = {block.hash for block in fold.blocks}
        for at, (block, cell) in enumerate(zip(fold.host_blocks, _cells(model), strict=True)):
            glyph = "·" if block.hash is None else "░" if block.hash in cached else "█"
            sign = "↑" if block.ref_cnt else "↓" if at in stores else None
            assert (cell.glyph, cell.sign and cell.sign[0]) == (glyph, sign)
            seen.add(glyph)
            use = {"·": "is empty", "░": "hits it there", "█": "loads it"}[glyph]
            said = "is being loaded for cleo" if block.ref_cnt else use
            assert said in ask_why(model, host_block(at))
        if isinstance(event, ev.BlockEvicted):
            held = {block.hash for block in fold.host_blocks}
            assert first[event.block_id][0] == ("≡" if event.hash in held else "×")
        assert all(first[at][0] in "↑≡×" for load in fold.loads.values() for at in load.block_ids)
        assert [cell.glyph + cell.mark for cell in block_cells(model)] == expected_cells(model)
        seen |= {sign for sign, _ in first.values()}
        saves, loads = rows(HostMap(), model, 68, 12)[:2]
        assert id_ranges(stores) in saves and ("cleo" in loads) == ("cleo.0" in fold.loads)
        slots = rows(make_panel("slots"), model)[0]
        assert "cleo.0" not in fold.loads or "LOADING 12/18      blocks 0-3 11" in slots
        seen |= {has_loaded := "LOADED " in slots}
        assert has_loaded == (phrase("queue.loaded") in rows(make_panel("waiting"), model)[0])
        for width, height in ROOMS:
            drawn = rows(HostMap(), model, width, height)
            assert len(drawn) <= height and (width < 37 or max(map(width_of, drawn)) <= width)
    assert seen == {"·", "░", "█", "↑", "↓", "≡", True, False}


def test_a_run_with_one_memory_has_no_host_map(shared_prefix) -> None:
    (model, _), *_ = moments(shared_prefix.run(1))
    assert rows(HostMap(), model) == ["this run has no second memory"]
    assert "rescued" not in "".join(rows(make_panel("blockmap"), model, 200))


def test_a_block_that_is_kept_for_another_engine_is_drawn_as_full(shared_prefix) -> None:
    *_, (model, end) = moments(shared_prefix.run())
    model.apply(ev.KVLease(end.seq + 1, end.step, end.t, 0, "r1.0", [3], 9.9))
    assert block_cells(model)[3].glyph == "█"
    assert "kept until another engine has read it" in why_block(model, 3)
