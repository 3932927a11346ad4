"""The pictures of the docs are what the dashboard draws today.

A different picture is written beside the old one as NAME.new.svg. If the change is intended, `make
pictures` redraws all of them.
"""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.tool_modules import load_tool
from support.tui.svg_rows import texts_of

PICTURES = Path(__file__).parents[3] / "docs/assets/dashboard"
TOOL = load_tool("pictures/make_pictures.py")


def comparable(svg: str) -> list[tuple]:
    """Every visible element, except for the number in ids and the quoted code of the Events screen.

    The number depends on the whole content. The quoted code moves with every change of the engine,
    and test_code.py checks it.
    """
    elements = ElementTree.fromstring(re.sub(r"terminal-\d+", "terminal", svg)).iter()
    elements = [node for node in elements if node.get("width") != "0"]
    above = next((node for node in elements if (node.text or "").startswith("emitted\xa0by")), None)
    if above is not None:
        left, top = float(above.get("x")), float(above.get("y"))
        texts = texts_of(svg)
        places = [(node.get("x"), node.get("y")) for node in texts]
        footer = max(float(y) for _, y in places)
        quoted = {(x, y) for x, y in places if float(x) >= left and top < float(y) < footer}
        elements = [node for node in elements if (node.get("x"), node.get("y")) not in quoted]
    return [(node.tag, sorted(node.attrib.items()), node.text) for node in elements]


@pytest.mark.parametrize(
    "name", [*TOOL.SHOTS, *(pytest.param(name, marks=pytest.mark.slow) for name in TOOL.SIZED)]
)
def test_a_picture_is_what_the_dashboard_draws_today(name: str, tmp_path: Path, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    drawn, golden = tmp_path / "drawn.svg", PICTURES / f"{name}.svg"
    TOOL.draw(name, drawn)
    new = golden.with_suffix(".new.svg")
    new.unlink(missing_ok=True)
    if comparable(drawn.read_text("utf-8")) != comparable(golden.read_text("utf-8")):
        new.write_bytes(drawn.read_bytes())
        pytest.fail(f"{name} has changed: look at {new}; if that is meant, run `make pictures`.")
