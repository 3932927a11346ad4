"""Which rows the Requests screen has, in what order, and what says that there are more."""

from support.engine.random_traces import folded

from minivllm.events import types as ev
from minivllm.tui.draw.lines import text_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.requests.timelines import Timelines


def rows(panel: Timelines, model: DashboardModel, width: int, height: int) -> list[str]:
    return [text_of(line).rstrip() for line in panel.lines(model, width, height)]


def test_a_beam_is_drawn_below_the_nearest_of_its_ancestors_that_is_still_there(stage, ask) -> None:
    beams = stage(
        [ask("ada", "a b c d", "e f g h i j k", beams=3, max_tokens=24), ask("ben", "l m", "n o p q r s t u v w")]
    )
    model, panel, forked_off = DashboardModel(beams.header), Timelines(), {}
    without_root = 0
    for event in beams.run().events:
        model.apply(event)
        if isinstance(event, ev.RequestForked):
            forked_off[event.seq_id] = event.parent
        if not isinstance(event, ev.StepEnd):
            continue
        lives, above = model.lives.by_sequence, []
        for row in (text_of(line)[2:] for line in panel.lines(model, 120, 20)[1:]):
            depth = row.find("└") + 1
            name = row[depth:].split()[0]
            seq_id = name if "." in name else f"{name}.0"
            ancestor = forked_off.get(seq_id)
            while ancestor is not None and ancestor not in lives:
                ancestor = forked_off.get(ancestor)
            del above[depth:]
            assert (above[-1] if depth else None) == ancestor
            above.append(seq_id)
        without_root += any(life.request_id == "ada" for life in lives.values()) and "ada.0" not in lives
    assert without_root


def test_where_there_are_more_rows_than_room_the_head_says_which_these_are(stage, ask) -> None:
    model = folded(stage([ask(f"r{i}", "a question", "an answer " * 9) for i in range(60)]).run(30))
    panel = Timelines()
    for width in (50, 118):
        shown = rows(panel, model, width, 14)
        names = [row.split()[1] if row[0].strip() else row.split()[0] for row in shown[1:]]
        first, last = (int(name[1:]) + 1 for name in (names[0], names[-1]))
        assert shown[0].startswith(f"{first}-{last} of 60 ↑↓ ")
    assert " of 60" not in rows(panel, model, 118, 80)[0]
