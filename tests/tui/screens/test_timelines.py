"""The timelines of sequences: each cell equals a plain reading of the events."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine.random_runs import OPTIONS, REQUESTS, RUNS, folded, run_of
from support.tui.shown import SCENARIOS, ends_of_steps, missing_from, moments, rows

from minivllm.events import types as ev
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import sequence
from minivllm.tui.widgets.requests.request_detail import RequestDetail
from minivllm.tui.widgets.requests.timelines import SIGNS, Axis, Timelines, in_order, phase_cells

_RAREST_FIRST = ("preempted", "prefill", "queued", "decode")


def reference(events: list[ev.Event], seq_id: str, last_step: int) -> list[str | None]:
    """Reference: the phase at the end of each step; None before the arrival and after the end."""
    phase, at_end, ended = None, {}, None
    for event in events:
        if isinstance(event, ev.RequestForked) and event.seq_id == seq_id:
            phase = "decode"
        elif getattr(event, "seq_id", None) == seq_id:
            match event:
                case ev.RequestArrived():
                    phase = "queued"
                case ev.RequestAdmitted() | ev.RequestResumed():
                    phase = "prefill"
                case ev.StepScheduled():
                    phase = event.kind
                case ev.RequestPreempted():
                    phase = "preempted"
                case ev.RequestFinished() | ev.RequestAborted():
                    ended = event.step
                    break
        at_end[event.step] = phase
    phases, now = [], None
    for step in range(last_step + 1):
        now = at_end.get(step, now)
        phases.append(phase if step == ended else now if ended is None or step < ended else None)
    return phases


@RUNS
@given(REQUESTS, OPTIONS, st.integers(1, 60))
def test_the_phases_drawn_match_a_reference(stage, ask, requests, options, width: int) -> None:
    run = run_of(stage, ask, requests, options)
    model = folded(run)
    last = model.fold.step
    begins = [e for e in run.events if isinstance(e, ev.RequestArrived | ev.RequestForked)]
    assert {record.seq_id for record in in_order(model)} == {event.seq_id for event in begins}
    for record in in_order(model):
        by_step = reference(run.events, record.seq_id, last)
        assert list(phase_cells(record, Axis(0, 1, last + 1), last)) == by_step
        axis = Axis.over(0, last, width)
        for number, cell in enumerate(phase_cells(record, axis, last)):
            of_cell = by_step[number * axis.steps_per_cell : (number + 1) * axis.steps_per_cell]
            assert cell == next((phase for phase in _RAREST_FIRST if phase in of_cell), None)


@pytest.mark.parametrize("scenario", SCENARIOS, indirect=True)
def test_the_bars_on_the_screen_are_the_phases(scenario) -> None:
    model = folded(scenario.run(50))
    records = in_order(model)
    signs = {None: " ", **SIGNS}
    # Bars are one row high, then two, and stretched: to 56 steps, up to 8 columns for each.
    num = len(records)
    for width, height, pitch in ((118, num + 1, 1), (118, 2 * num + 1, 2), (600, 90, 2)):
        head, *shown = rows(Timelines(), model, width, height)
        columns = min(width - head.index("steps"), 56 * 8)
        ends = [step * columns // 56 for step in range(52)]
        assert len(shown) == min(pitch * num, height - 1)
        for number, record in enumerate(records):
            cells = phase_cells(record, Axis(0, 1, 51), 50)
            wide = (ends[step + 1] - ends[step] for step in range(51))
            bar = "".join(signs[phase] * by for phase, by in zip(cells, wide, strict=True)).rstrip()
            first, *others = shown[number * pitch : (number + 1) * pitch]
            assert first.endswith(bar.lstrip())
            if others:
                assert others[0].strip() == bar.replace(SIGNS["preempted"], " ").strip()
            assert not any(others[1:])
    head, *shown = rows(Timelines(), model, 70, num + 1)
    per_cell = 51 / (max(map(len, shown)) - head.index("steps"))
    assert float(re.search(r"([\d.]+) per cell", head)[1]) == pytest.approx(per_cell, abs=0.1)


@pytest.mark.parametrize("clock", ["virtual", "monotonic"])
def test_times_are_those_of_the_events_in_the_unit_of_the_clock(shared_prefix, clock) -> None:
    shared_prefix.run()
    shared_prefix.header = msgspec.structs.replace(shared_prefix.header, clock=clock)
    model = folded(shared_prefix)
    records, panel = in_order(model), RequestDetail()
    shown = rows(Timelines(), model, 118, len(records) + 1)[1:]
    for record, row in zip(records, shown, strict=True):
        of_it = [e for e in shared_prefix.events if getattr(e, "seq_id", None) == record.seq_id]
        arrived = next(e for e in of_it if isinstance(e, ev.RequestArrived))
        tokens = [e for e in of_it if isinstance(e, ev.TokenSampled)]

        def between(before: ev.Event, later: ev.Event) -> float:
            return later.t - before.t if clock == "monotonic" else later.step - before.step

        first = between(arrived, tokens[0])
        each = between(tokens[0], tokens[-1]) / (len(tokens) - 1)
        assert model.pace.first_token(record) == first
        assert model.pace.later_tokens(record) == pytest.approx(each)
        assert row.split()[2:5] == ["done", model.pace.shown(first), model.pace.shown(each)]
        words = " ".join(rows(panel, model, 90, 40, sequence(record.seq_id)))
        in_steps = f"{first} steps to its first" in words or "1 step to its first" in words
        assert in_steps == (clock == "virtual")
        assert bool(re.search(r"\d(ms| ?s)\b", words)) == (clock == "monotonic")
        steps = len({e.step for e in of_it if isinstance(e, ev.StepScheduled)}) - 1
        assert f"decodes for {steps} steps" in words, "it gets a token in the step in which it ends"


def test_a_beam_is_drawn_below_its_nearest_living_ancestor(stage, ask) -> None:
    ada = ask("ada", "a b c d", " e f g h i j k", beams=3, max_tokens=24)
    beams = stage([ada, ask("ben", "l m", "n o p q r s t u v w")])
    panel, without_root = Timelines(), 0
    forks = [event for event in beams.run().events if isinstance(event, ev.RequestForked)]
    forked_off = {event.seq_id: event.parent for event in forks}
    for model in ends_of_steps(beams):
        records, above = model.ledger.sequences, []
        for row in (text_of(line)[2:] for line in panel.lines(model, 120, len(records) + 1)[1:]):
            depth = row.find("└") + 1
            name = row[depth:].split()[0]
            seq_id = name if "." in name else f"{name}.0"
            ancestor = forked_off.get(seq_id)
            while ancestor is not None and ancestor not in records:
                ancestor = forked_off.get(ancestor)
            del above[depth:]
            assert (above[-1] if depth else None) == ancestor
            above.append(seq_id)
        samples = {seq_id for seq_id in records if seq_id.startswith("ada")}
        without_root += bool(samples) and "ada.0" not in samples
    assert without_root


def test_tokens_found_again_after_a_preemption_are_not_the_prompts(memory_pressure) -> None:
    panel, num_checked, first = RequestDetail(), 0, {}
    for model, event in moments(memory_pressure.run()):
        if isinstance(event, ev.RequestAdmitted):
            first[event.seq_id] = event.num_cached_tokens
        if isinstance(event, ev.RequestResumed) and event.num_cached_tokens:
            text = " ".join(rows(panel, model, 90, 40, sequence(event.seq_id)))
            found = f"{event.num_cached_tokens} tokens found again in the cache after its"
            assert f"prompt tokens, {first[event.seq_id]} from the cache;" in text and found in text
            num_checked += 1
    hits = model.fold.counters.prefix_cache_hits
    assert num_checked and hits == sum(first.values()), "the top line's hits count the same tokens"


def test_the_numbers_and_phases_are_those_of_the_fold(memory_pressure, shared_prefix) -> None:
    model, panel = folded(memory_pressure.run(60)), RequestDetail()
    preempted = [record for record in in_order(model) if record.preemption is not None]
    assert len(preempted) == 2
    for record in preempted:
        last, output = record.preemption, len(model.fold.sequences[record.seq_id].output_token_ids)
        text = " ".join(rows(panel, model, 90, 40, sequence(record.seq_id)))
        facts = (last.step, "preempted", last.victim_of[:-2], 60 - last.step, output, 80)
        assert missing_from(text, *facts) == []
    # A finished sequence is shown from the history.
    model = folded(shared_prefix.run())
    done = model.fold.history[-1]
    text = " ".join(" ".join(rows(panel, model, 90, 60, sequence(done.seq_id))).split())
    assert missing_from(text, "done", done.num_tokens) == [] and " ".join(done.text.split()) in text
    unknown = " ".join(rows(panel, model, 90, 60, sequence("nobody.0")))
    assert "nobody is not known" in unknown


def test_a_low_panel_keeps_the_reasons_of_waits(memory_pressure, shared_prefix) -> None:
    panel = RequestDetail()
    for stage, seq_id, because in (
        (memory_pressure, "r2.0", "waits for 43 steps: r0 needed 1 block, none was free"),
        (shared_prefix, "r4.0", "waits for 48 steps: all 4 slots taken"),
    ):
        shown = rows(panel, folded(stage.run()), 90, 12, sequence(seq_id))
        assert missing_from(" ".join(shown), because, "…", "ends: done") == []
        assert not any("decodes" in row for row in shown)


def test_the_newest_requests_are_visible_beside_a_selected_older_one(shared_prefix) -> None:
    model, panel = folded(shared_prefix.run()), Timelines()
    ids = list(model.ledger.sequences)
    shown = " ".join(rows(panel, model, 118, 6, sequence(ids[3])))
    assert missing_from(shown, *(seq_id[:-2] for seq_id in ids[3:])) == []
    shown = " ".join(rows(panel, model, 118, 6, sequence(ids[0])))
    assert ids[0][:-2] in shown, "a selected one is in view"
