"""The pictures of the docs are what the dashboard draws today, and need nothing from elsewhere.

A picture that differs is written beside the old one as NAME.new.svg, to be looked at. If the change is meant,
`make pictures` draws all of them again.
"""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs/assets/dashboard"
SVG = "{http://www.w3.org/2000/svg}"


def _load_tool() -> ModuleType:
    """The command, as a module: tools are no package."""
    spec = importlib.util.spec_from_file_location("make_pictures", ROOT / "tools/make_pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _load_tool()


def normalised(svg: str) -> str:
    """Without the number that Rich puts into every id: it hangs on all of the content, and says nothing itself."""
    return re.sub(r"terminal-\d+", "terminal", svg)


def test_there_are_under_ten_pictures_and_no_others() -> None:
    committed = {path.name for path in PICTURES.iterdir() if not path.name.endswith(".new.svg")}
    assert committed == {f"{name}.svg" for name in TOOL.SHOTS}
    assert len(committed) < 10
    assert {words[words.index("--screen") + 1] for words in TOOL.SHOTS.values() if "--screen" in words} == {
        "blocks", "scheduler", "requests", "events", "compare",
    }  # fmt: skip


@pytest.mark.parametrize("name", TOOL.SHOTS)
def test_a_picture_is_what_the_dashboard_draws_today(name: str, tmp_path: Path) -> None:
    drawn, golden = tmp_path / "drawn.svg", PICTURES / f"{name}.svg"
    TOOL.draw(name, drawn)
    new = golden.with_suffix(".new.svg")
    new.unlink(missing_ok=True)
    if normalised(drawn.read_text("utf-8")) != normalised(golden.read_text("utf-8")):
        new.write_bytes(drawn.read_bytes())
        pytest.fail(f"{golden.name} has changed: look at {new}, and if that is meant, run `make pictures`.")


@pytest.mark.parametrize("name", TOOL.SHOTS)
def test_a_picture_asks_no_other_host_for_anything(name: str) -> None:
    text = (PICTURES / f"{name}.svg").read_text("utf-8")
    assert set(re.findall(r"\w+://[^\"'\s]*", text)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
    assert "@font-face" not in text and "@import" not in text
    for element in ElementTree.fromstring(text).iter():
        assert not any(key.endswith("href") or key == "src" for key in element.attrib)
        assert all(
            url.startswith("#") for value in element.attrib.values() for url in re.findall(r"url\((.*?)\)", value)
        )


@pytest.mark.parametrize("name", TOOL.SHOTS)
def test_every_text_of_a_picture_is_as_wide_as_its_cells(name: str) -> None:
    """Whatever font draws it: `textLength` holds each run of text to its columns, and the fallback is monospaced."""
    root = ElementTree.fromstring((PICTURES / f"{name}.svg").read_text("utf-8"))
    style = root.findtext(f"{SVG}style")
    assert re.search(r"-matrix \{\s*font-family: [^;]*monospace;", style)
    texts = [one for one in root.iter(f"{SVG}text") if "clip-path" in one.attrib and one.get("textLength")]
    assert len(texts) > 100
    cell = {round(float(one.get("textLength")) / cell_len(one.text), 3) for one in texts}
    assert max(cell) - min(cell) < 0.01, cell
