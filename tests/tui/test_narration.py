"""The narrated line: the newest notable decision, long enough to read, and the same after a seek."""

from support.tui.memory_recording import context_of
from support.tui.shown import moments, rows

from minivllm.events import types as ev
from minivllm.tui.state.decisions import Decision
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.state.narration import SECONDS_TO_READ, STEPS_TO_AGE, Narration
from minivllm.tui.widgets.frame.narrator import Narrator


def decision(seq: int, step: int, kind: str) -> Decision:
    facts = {"slot": 1, "tokens": 3, "victim_of": "ada", "reason": "needed 1 block"}
    return Decision(seq, step, (step, kind, "ben.0", "", ""), "ben.0", "b", "", "text", facts=facts)


ARRIVES = decision(1, 1, "request.arrived")
PREEMPTED = decision(5, 2, "request.preempted")
ENTERS = decision(8, 3, "request.admitted")
TAKES = decision(9, 3, "block.allocated")


def test_a_sentence_stays_two_seconds_and_the_most_notable_one_follows():
    narration = Narration(begins_after=3.0)
    assert narration.look([], 0.0, "live") is None
    assert narration.look([ARRIVES], 2.9, "live") is None, "what to watch can be read"
    assert narration.look([ARRIVES], 3.1, "live") is ARRIVES
    everything = [ARRIVES, PREEMPTED, ENTERS, TAKES]
    assert narration.look(everything, 3.2, "live") is ARRIVES
    assert narration.look(everything, 3.1 + SECONDS_TO_READ, "live") is PREEMPTED
    assert narration.look(everything, 3.1 + 2 * SECONDS_TO_READ, "live") is ENTERS
    assert narration.look(everything, 99.0, "live") is ENTERS, "a taken block is no news"
    newest, narration = decision(99, 70, "request.admitted"), Narration()
    assert narration.look([ARRIVES], 0.0, "live") is ARRIVES
    assert narration.look([ARRIVES, PREEMPTED, newest], 9.0, "live") is newest, "it is old"


def test_no_sentence_is_held_after_a_jump_or_at_a_standstill(memory_pressure):
    (panel := Narrator()).context = context_of(memory_pressure.run(), 0)
    transport = panel.context.transport
    early, newest = transport.recording.view_at_event(400), transport.recording.head
    transport.now = 0.0

    def told(model: DashboardModel, state: str = "live", quiet: float = 0.0) -> str:
        transport.state, transport.quiet_seconds = state, quiet
        return rows(panel, model)[0]

    held, now = told(early), f" step {newest.fold.step} "
    assert told(newest) == held, "nobody can have read it"
    assert told(newest, quiet=1.5).startswith(now)
    assert told(early) == held and told(newest, "playing").startswith(now)


def test_the_line_is_of_the_last_steps_and_else_says_what_to_watch(shared_prefix):
    run, panel, shown = shared_prefix.run(), Narrator(), 0
    panel.context = context_of(run, 0)
    panel.context.watch = "How blocks are shared."
    for at in (*range(0, len(run.events), 9), *range(len(run.events), -1, -33)):
        panel.context.transport.to_position(at)
        model = panel.context.transport.view
        (row,) = rows(panel, model)
        told = [decision.step for decision in model.log.decisions if decision.rank >= 0]
        is_news = told and model.fold.step - told[-1] <= STEPS_TO_AGE
        assert row.startswith(f" step {told[-1]} " if is_news else " Watch: How"), at
        shown += bool(is_news)
    assert shown


def test_the_line_names_the_cause_first_at_every_preemption_of_a_run(memory_pressure):
    found, gone = 0, set()
    for model, event in moments(memory_pressure.run()):
        if isinstance(event, ev.RequestPreempted):
            told = Narration().look(model.log.decisions, 0.0, None).narrated()
            victim, cause = event.seq_id.removesuffix(".0"), event.victim_of.removesuffix(".0")
            assert len(told.replace(victim, "hana").replace(cause, "cleo")) <= 68, "80 columns"
            said, _ = told.split(" up its ")  # once
            assert f"{cause} needed" in said and ("last in line" in said) == (cause == victim)
            gone.add(event.seq_id)
        elif isinstance(event, ev.BlockHit):
            said = model.log.decisions[-1].narrated()
            assert ("is back" in said) == (event.seq_id in gone), "its own blocks, or another's"
            found += event.seq_id in gone
    assert gone and found
