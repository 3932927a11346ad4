"""Checks the places of everything on a screen."""

from rich.cells import cell_len
from textual.geometry import Region
from textual.widgets import Footer

from minivllm.tui.app import DashboardApp
from minivllm.tui.draw.lines import text_of
from support.tui.driven_app import visible


def check_that_everything_has_its_place(app: DashboardApp, size: tuple[int, int]) -> None:
    """Check that the panels are on the screen, do not overlap, and draw only inside themselves."""
    screen, shown = Region(0, 0, *size), visible(app)
    # In a terminal lower than every layout, the container cuts off the rest.
    is_cut = size[1] < 24
    place = {
        one: app.screen.find_widget(one).visible_region if is_cut else one.region for one in shown
    }
    shown = [one for one in shown if place[one].area]
    assert {one.id for one in shown} >= {"header", "timeline"}
    panels = [one for one in app.dashboard_screen.panels() if one.display]
    assert {one.id for one in panels if not one.region.area} <= {"watch"}
    for number, one in enumerate(shown):
        assert screen.contains_region(place[one]), one
        assert not any(place[one].overlaps(place[other]) for other in shown[number + 1 :]), one
        width, height = one.content_size
        # A folded panel is only its title.
        assert is_cut or (width >= 10 and height >= 1) or str(one.border_title).strip(), one
        for row in range(height):
            assert one.render_line(row).cell_length == width, one
        lines = one.lines(one._model, width, height)
        assert len(lines) <= max(height, 1), one
        assert all(cell_len(text_of(line)) <= width for line in lines), (one, lines)
    footer = app.dashboard_screen.query_one(Footer).region
    assert (footer.bottom, footer.width) == (size[1], size[0])
    assert not any(footer.overlaps(place[one]) for one in shown)
